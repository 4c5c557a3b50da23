"""Policies, runs and environments of dbqpg, for Python.

dbqpg trains policies by Deep Bayesian Quadrature Policy Optimization; its programs are written in Go, and the wheel for
Linux has them inside. The package needs NumPy alone; what needs more says so when it is used.

    for row in dbqpg.train("Swimmer-v5", seed=1): ...      # starts the program learner
    policy = dbqpg.load("runs/Swimmer-v5/trpo-mc-s1")      # a run, a checkpoint, or a folder of learner export
    action = policy(observation)
    run = dbqpg.read_run("runs/Swimmer-v5/trpo-mc-s1")
    run.progress["return_mean"], run.evaluations.to_pandas()
    dbqpg.read_runs("runs").to_pandas()
"""

import importlib.metadata

from dbqpg.coordinator import Coordinator, CoordinatorError
from dbqpg.policy import Policy, load
from dbqpg.runs import Run, Runs, Table, read_run, read_runs, read_table
from dbqpg.training import Training, TrainingError, train

try:
    __version__ = importlib.metadata.version("dbqpg")
except importlib.metadata.PackageNotFoundError:  # used from a checkout
    __version__ = "0+checkout"

__all__ = [
    "Coordinator", "CoordinatorError", "Policy", "Run", "Runs", "Table", "Training", "TrainingError", "load", "read_run",
    "read_runs", "read_table", "train",
]

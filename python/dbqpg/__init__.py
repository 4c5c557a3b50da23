"""Policies, runs and environments of dbqpg, for Python.

dbqpg trains policies by Deep Bayesian Quadrature Policy Optimization; its programs are written in Go. This package is
what stands beside them in Python. It needs NumPy alone; what needs more says so when it is used.

    policy = dbqpg.load("runs/Swimmer-v5/trpo-mc-s1")    # a run, a checkpoint, or a folder of learner export
    action = policy(observation)
    run = dbqpg.read_run("runs/Swimmer-v5/trpo-mc-s1")
    run.progress["return_mean"], run.evaluations.to_pandas()
"""

from dbqpg.coordinator import Coordinator, CoordinatorError
from dbqpg.policy import Policy, load
from dbqpg.runs import Run, Table, read_run, read_runs, read_table

__all__ = ["Coordinator", "CoordinatorError", "Policy", "Run", "Table", "load", "read_run", "read_runs", "read_table"]

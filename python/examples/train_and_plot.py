"""Train, plot, load, roll out: the steps of a first afternoon, cell by cell.

Open it in an editor that knows `# %%` cells (VS Code, PyCharm, Spyder, or Jupyter with jupytext), or run it as it is:

    make setup && go build -o bin/ ./learner
    pip install './python[gymnasium,pandas]' matplotlib
    python python/examples/train_and_plot.py
"""

# %% Train for 50 iterations: some minutes on two cores
import os
import pathlib
import subprocess

import gymnasium
import matplotlib
import numpy as np

matplotlib.use("Agg")  # a file; leave this line out in a notebook
import matplotlib.pyplot as plt

import dbqpg

learner = os.environ.get("LEARNER", "bin/learner")
iterations = int(os.environ.get("ITERATIONS", "50"))
directory = pathlib.Path(os.environ.get("RUN_DIR", "runs/example"))
settings = os.environ.get("SETTINGS", "--batch 5000 --evaluate-every 10").split()

subprocess.run(
    [learner, "--env", "Swimmer-v5", "--iterations", str(iterations), "--run-dir", directory, "--resume=auto", *settings],
    check=True,
)

# %% The run as arrays
run = dbqpg.read_run(directory)
print(run.settings["estimator"], run.progress.rows, "iterations")
print(run.evaluations.to_pandas()[["iteration", "mean_action_return", "mean_action_standard_error"]])

# %% Plot it
figure, axes = plt.subplots(figsize=(7, 4))
axes.plot(run.progress["steps"], run.progress["return_mean"], label="training, sampled actions")
axes.errorbar(
    run.evaluations["steps"], run.evaluations["mean_action_return"], run.evaluations["mean_action_standard_error"],
    fmt="o-", label="evaluation, mean action",
)
axes.set(xlabel="environment steps", ylabel="return", title=run.settings["env"])
axes.legend()
figure.savefig(directory / "returns.png", dpi=120)

# %% Load the best policy, and play it in Gymnasium
policy = run.policy()
environment = gymnasium.make(run.settings["env"])
returns = []
for seed in range(int(os.environ.get("EPISODES", "10"))):
    observation, _ = environment.reset(seed=seed)
    total, done = 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = environment.step(policy(observation))
        total += float(reward)
        done = terminated or truncated
    returns.append(total)
environment.close()
print(f"{np.mean(returns):.1f} +/- {np.std(returns):.1f} over {len(returns)} episodes")

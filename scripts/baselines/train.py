"""Trains what dbqpg is compared with: TRPO of sb3-contrib and PPO of Stable-Baselines3, with the settings of
rl-baselines3-zoo (hyperparameters.yaml), and trpo-std, which is TRPO with another initial standard deviation (--std), on
one thread. scripts/baselines/run.sh starts it in its environment.

A complete run has two files under --out: TASK/ALGORITHM-sSEED.csv, with a row for each evaluation, and .yaml, which says
what made it. It is not trained again. A run that was interrupted starts over. Several of these programs may work on one
directory: none takes a run that another one is at."""

import argparse
import csv
import fcntl
import importlib.metadata
import math
import platform
import sys
import time
from pathlib import Path
from typing import IO, Any

import gymnasium
import sb3_contrib
import stable_baselines3
import torch
import yaml
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

ALGORITHMS = {"trpo": sb3_contrib.TRPO, "ppo": stable_baselines3.PPO, "trpo-std": sb3_contrib.TRPO}
TASKS = ["HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Swimmer-v5", "Ant-v5", "Humanoid-v5", "HumanoidStandup-v5"]
PACKAGES = ["stable-baselines3", "sb3-contrib", "torch", "gymnasium", "mujoco", "numpy"]
COLUMNS = ["task", "algorithm", "seed", "steps", "seconds", "cpu_seconds", "episodes", "return", "return_min", "return_max", "length"]

# The seed of the episodes of every evaluation, which no run has: all policies start from the same states.
EVALUATION_SEED = 1_000_000


class Evaluation(BaseCallback):
    """Evaluates the policy at the start, at the end, and between them before the first rollout after every so many steps.
    The policy takes mean actions, clipped to the task's bounds; returns are sums of rewards as the task pays them. The
    time that this takes does not count."""

    def __init__(self, task: str, algorithm: str, seed: int, every: int, episodes: int, out: IO[str]) -> None:
        super().__init__()
        self.labels, self.every, self.out = [task, algorithm, seed], every, csv.writer(out)
        self.flush = out.flush
        self.next = 0
        # Together, not one after the other: calls of the policy are slow, rows of its batch are not.
        self.episodes = VecNormalize(make_vec_env(task, n_envs=episodes), training=False, norm_reward=False)
        self.out.writerow(COLUMNS)
        self.began, self.began_cpu = time.perf_counter(), time.process_time()  # later by what evaluations took

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self.next:
            self.next = (self.num_timesteps // self.every + 1) * self.every
            self.evaluate()

    def _on_training_end(self) -> None:
        self.evaluate()
        self.episodes.close()

    def _on_step(self) -> bool:
        return True

    def evaluate(self) -> None:
        now, now_cpu = time.perf_counter(), time.process_time()
        training = self.model.get_env()
        assert isinstance(training, VecNormalize)
        self.episodes.obs_rms = training.obs_rms
        self.episodes.seed(EVALUATION_SEED)
        n = self.episodes.num_envs
        returns, lengths = evaluate_policy(self.model, self.episodes, n, deterministic=True, return_episode_rewards=True)
        took = [f"{now - self.began:.1f}", f"{now_cpu - self.began_cpu:.1f}"]
        results = [f"{x:.6g}" for x in (sum(returns) / n, min(returns), max(returns), sum(lengths) / n)]
        self.out.writerow([*self.labels, self.num_timesteps, *took, n, *results])
        self.flush()
        self.began += time.perf_counter() - now
        self.began_cpu += time.process_time() - now_cpu


def train(settings: dict[str, Any], task: str, algorithm: str, seed: int, args: argparse.Namespace, out: IO[str]) -> None:
    settings = dict(settings)
    env = make_vec_env(task, n_envs=settings.pop("n_envs", 1), seed=seed)
    if settings.pop("normalize"):
        env = VecNormalize(env, gamma=settings.get("gamma", 0.99))
    kwargs = dict(settings.pop("policy_kwargs", {}))
    if name := kwargs.get("activation_fn"):
        kwargs["activation_fn"] = getattr(torch.nn, name)
    model = ALGORITHMS[algorithm](env=env, seed=seed, device="cpu", policy_kwargs=kwargs, **settings)
    model.learn(args.steps, callback=Evaluation(task, algorithm, seed, args.every, args.episodes, out))
    env.close()


def configure(table: dict[str, Any], algorithm: str, task: str, std: float) -> dict[str, Any]:
    """The settings of an algorithm on a task; those of trpo-std are TRPO's with a standard deviation of std half ranges."""
    settings = table[algorithm.removesuffix("-std")][task.rsplit("-", 1)[0]]
    if algorithm == "trpo-std":
        [half_range] = set(gymnasium.make(task).action_space.high.tolist())  # one of all actions: so is the initial deviation
        settings = settings | {"policy_kwargs": {"log_std_init": round(math.log(std * half_range), 6)}}
    return settings


def complete(path: Path, settings: dict[str, Any], steps: int) -> bool:
    """Whether the run has been made, with at least that many steps."""
    if not path.exists():
        return False
    made = yaml.safe_load(path.with_suffix(".yaml").read_text())
    if made["settings"] != settings:
        sys.exit(f"baselines: {path} was made with other settings: choose another --out, or go back to those settings")
    with path.open() as file:
        return int(list(csv.DictReader(file))[-1]["steps"]) >= steps


def record(settings: dict[str, Any]) -> str:
    """What makes a run, for its .yaml."""
    with open("/proc/cpuinfo") as file:
        processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    versions = {name: importlib.metadata.version(name) for name in PACKAGES} | {"python": platform.python_version()}
    return yaml.safe_dump({"settings": settings, "versions": versions, "processor": processor, "threads": 1}, sort_keys=False)


def run(task: str, algorithm: str, seed: int, settings: dict[str, Any], args: argparse.Namespace) -> None:
    """Makes a run, unless it is complete or another program is at it."""
    name, path = f"{algorithm} on {task}, seed {seed}", args.out / task / f"{algorithm}-s{seed}.csv"
    if complete(path, settings, args.steps):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("a") as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{name}: another program is at it", file=sys.stderr)
            return
        if complete(path, settings, args.steps):  # since just now
            part.unlink()
            return
        out.truncate(0)
        print(f"{name}: {args.steps} steps, from {time.strftime('%H:%M:%S')}", file=sys.stderr)
        train(settings, task, algorithm, seed, args, out)
        path.with_suffix(".yaml").write_text(record(settings))
        part.rename(path)  # last: a run with this file is complete


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/baselines/run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(",")
    parser.add_argument("--out", type=Path, help="directory of the results (docs/results/best/baselines)")
    parser.add_argument("--tasks", type=names, default=TASKS, metavar="TASK,...", help="default: the seven")
    parser.add_argument("--algorithms", type=names, default=["trpo", "ppo"], metavar="NAME,...", help="trpo, ppo or trpo-std (default: trpo,ppo)")
    parser.add_argument("--std", type=float, metavar="X", help="initial standard deviation of trpo-std, as a fraction of an action's half range")
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in names(text)], default=[1, 2, 3, 4, 5], metavar="N,...", help="default: 1,2,3,4,5")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of a run, at least (default: 1000000); a shorter run that exists is made anew")
    parser.add_argument("--every", type=int, default=20_000, help="steps between evaluations (default: 20000)")
    parser.add_argument("--episodes", type=int, default=5, help="of an evaluation (default: 5)")
    parser.add_argument("--quick", action="store_true", help="one rollout and two evaluations of a run, seed 1, into runs/baselines-quick: shows that all of it works, nothing else")
    args = parser.parse_args()
    if args.quick:
        args.steps, args.episodes, args.seeds = 1, 1, [1]
    args.out = args.out or Path("runs/baselines-quick" if args.quick else "docs/results/best/baselines")
    table = yaml.safe_load(Path(__file__).with_name("hyperparameters.yaml").read_text())
    for algorithm in args.algorithms:
        if algorithm not in ALGORITHMS:
            parser.error(f"--algorithms: there is no {algorithm!r}; there are {', '.join(ALGORITHMS)}")
    for task in args.tasks:
        if task.rsplit("-", 1)[0] not in table["trpo"]:
            parser.error(f"--tasks: there are no settings for {task!r}; there are for {', '.join(table['trpo'])}")
    if "trpo-std" in args.algorithms and not (args.std and args.std > 0):
        parser.error("--std: trpo-std needs a positive number, such as --std 0.5")
    torch.set_num_threads(1)
    for seed in args.seeds:
        for algorithm in args.algorithms:
            for task in args.tasks:
                run(task, algorithm, seed, configure(table, algorithm, task, args.std), args)


if __name__ == "__main__":
    main()

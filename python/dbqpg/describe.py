"""Writes the task file of an environment: `python -m dbqpg.describe gymnasium:Humanoid-v5 > task.yaml`.

Targets and --kwargs are those of `python -m dbqpg.environment`, which the file's command starts, with this Python. Train with
`learner --task task.yaml`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dbqpg.environment import Environment, choices, make, size


def describe(target: str, kwargs: dict[str, Any], name: str | None = None, steps: int | None = None) -> str:
    """Returns the task file of a target. steps is the time limit, by default the environment's own."""
    env = make(target, kwargs)
    try:
        first, again = (np.array(env.reset(seed=1)[0]) for _ in range(2))
    except Exception as error:
        raise ValueError(f"{target}: reset(seed=1) raises {error!r}") from error
    if not np.array_equal(first, again):
        print(
            f"python -m dbqpg.describe: {target} ignores the seed given to reset: runs of it cannot be repeated, "
            "and depend on the actors",
            file=sys.stderr,
        )
    steps = steps or limit(env)
    if steps is None:
        raise ValueError(f"{target} has no time limit: give one, --steps 1000")
    lines = {
        "name": name or re.sub(r"[^A-Za-z0-9_-]+", "-", target)[:64],
        "observations": size(env.observation_space),
        "actions": size(env.action_space),
        **actions(env.action_space),
        "steps": steps,
        "command": json.dumps(
            [sys.executable, "-m", "dbqpg.environment", target, *(["--kwargs", json.dumps(kwargs)] if kwargs else [])]
        ),
    }
    if target.partition(":")[0] not in ("gymnasium", "dm_control"):
        lines["directory"] = json.dumps(os.getcwd())  # where Python finds the module
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def actions(space: Any) -> dict[str, Any]:
    """The bounds of actions, or how many choices there are."""
    if discrete := choices(space):
        return {"choices": discrete}
    return {"low": bound(space.low, space.shape), "high": bound(space.high, space.shape)}


def limit(env: Environment) -> int | None:
    """The environment's own time limit."""
    steps = getattr(getattr(env, "spec", None), "max_episode_steps", None) or getattr(env, "max_episode_steps", None)
    return None if steps is None else int(steps)


def bound(values: Any, shape: Sequence[int]) -> str:
    """Bounds as a list in YAML."""
    numbers = np.broadcast_to(values, tuple(shape)).ravel().tolist()
    return "[" + ", ".join(f"{x:.17g}".replace("inf", ".inf") if abs(x) == float("inf") else repr(x) for x in numbers) + "]"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a task file."""
    parser = argparse.ArgumentParser(
        prog="python -m dbqpg.describe", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", help="gymnasium:NAME, dm_control:DOMAIN/TASK or MODULE:CLASS")
    parser.add_argument("--kwargs", type=json.loads, default={}, metavar="JSON", help="arguments for the environment")
    parser.add_argument("--name", help="of the task (default: the target, with - for other characters)")
    parser.add_argument("--steps", type=int, help="time limit (default: the environment's own)")
    chosen = parser.parse_args(arguments)
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the environment may print, in Python and beneath it
    try:
        print(describe(chosen.target, chosen.kwargs, chosen.name, chosen.steps), end="", file=output, flush=True)
    except (ImportError, ValueError) as error:
        sys.exit(f"python -m dbqpg.describe: {error}")


if __name__ == "__main__":
    main()

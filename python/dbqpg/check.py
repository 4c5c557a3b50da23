"""Checks an environment before training on it: `python -m dbqpg.check module:Class`.

Plays random episodes of a target (see `python -m dbqpg.environment`), each twice with the same seed and actions. It
reports breaches of Gymnasium's API, values that are not finite or outside the spaces, episodes that are no functions of
their seeds, and the steps per second. The exit status is 1 if there is an error; warnings leave it 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dbqpg.describe import limit
from dbqpg.environment import Environment, choices, make, size


class Episode(NamedTuple):
    """What an episode answered: an observation, a reward and an end a step, after the first observation."""

    observations: list[npt.NDArray[Any]]
    rewards: list[float]
    ends: list[tuple[bool, bool]]

    def differs(self, other: Episode) -> int | None:
        """Returns the first step after which the episodes differ, 0 for reset, or None."""
        for i, (a, b) in enumerate(zip(self.observations, other.observations)):
            if not np.array_equal(a, b):
                return i
            if i and (self.rewards[i - 1], self.ends[i - 1]) != (other.rewards[i - 1], other.ends[i - 1]):
                return i
        return None if len(self.rewards) == len(other.rewards) else min(len(self.rewards), len(other.rewards)) + 1


class Report(NamedTuple):
    """The findings. Training fails on errors; warnings cost reproducibility or speed of learning."""

    errors: list[str]
    warnings: list[str]
    steps: int
    seconds: float  # of playing them once
    returns: list[float]
    lengths: list[int]


class _Failed(Exception):
    """The environment cannot be played further."""


def check(target: str, kwargs: dict[str, Any] | None = None, episodes: int = 5, steps: int = 1000) -> Report:
    """Checks an environment by episodes of at most `steps` steps. ValueError and ImportError: it cannot be made."""
    report = Report([], [], 0, 0.0, [], [])
    first, second = (make(target, kwargs or {}) for _ in range(2))
    most = limit(first)
    if most is None:
        report.warnings.append("it has no time limit: give one, python -m dbqpg.describe --steps 1000")
    _check_spaces(first, report)
    seconds = 0.0
    starts = []
    try:
        for seed in range(1, episodes + 1):
            began = time.perf_counter()
            one = _play(first, seed, min(steps, most or steps), report)
            seconds += time.perf_counter() - began
            starts.append(one.observations[0])
            report.returns.append(sum(one.rewards))
            report.lengths.append(len(one.rewards))
            # The other instance has played other episodes before, so that state left behind is found too.
            if seed > 1:
                _play(second, 10_000 + seed, 3, report)
            where = one.differs(_play(second, seed, min(steps, most or steps), report))
            if where is not None:
                place = f"step {where}" if where else "reset"
                report.warnings.append(
                    f"two episodes of seed {seed} with the same actions differ after {place}: runs cannot be repeated, and "
                    "depend on the actors; take all random numbers from a generator made of the seed, and share no state "
                    "between episodes"
                )
                break
        if len(starts) > 1 and all(np.array_equal(starts[0], x) for x in starts):
            report.warnings.append("every seed starts at the same observation")
    except _Failed as error:
        report.errors.append(str(error))
    finally:
        for env in (first, second):
            getattr(env, "close", lambda: None)()
    return report._replace(steps=sum(report.lengths), seconds=seconds)


def _check_spaces(env: Environment, report: Report) -> None:
    """Checks what the spaces say of themselves."""
    if size(env.observation_space) > 10_000:
        report.warnings.append(f"an observation has {size(env.observation_space)} numbers, and policies have no convolutions")
    if choices(env.action_space) is None:
        low, high = np.asarray(env.action_space.low), np.asarray(env.action_space.high)
        if not (low < high).all():
            report.errors.append(f"the bounds of actions leave no room: low {low}, high {high}")
        elif not np.isfinite([low, high]).all():
            report.warnings.append("actions have no bounds, to which the first standard deviation is relative")


def _play(env: Environment, seed: int, steps: int, report: Report) -> Episode:
    """Plays an episode of random actions, which are a function of the seed."""
    rng = np.random.default_rng(seed)
    answer = _call(f"reset(seed={seed})", lambda: env.reset(seed=seed))
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise _Failed(f"reset(seed={seed}) returns {_shown(answer)}, not (observation, info)")
    episode = Episode([_observed(env, answer[0], "reset", report)], [], [])
    for i in range(1, steps + 1):
        action = _action(env.action_space, rng)
        answer = _call(f"step {i} of seed {seed}", lambda action=action: env.step(action))
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise _Failed(f"step returns {_shown(answer)}, not (observation, reward, terminated, truncated, info)")
        observation, reward, terminated, truncated, _ = answer
        episode.observations.append(_observed(env, observation, f"step {i} of seed {seed}", report))
        if np.ndim(reward) or not np.isfinite(float(reward)):
            raise _Failed(f"step {i} of seed {seed}: the reward is {_shown(reward)}, not a finite number")
        episode.rewards.append(float(reward))
        episode.ends.append((bool(terminated), bool(truncated)))
        if terminated or truncated:
            break
    return episode


def _call(what: str, call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        raise _Failed(f"{what} raises {type(error).__name__}: {error}") from error


def _observed(env: Environment, observation: Any, where: str, report: Report) -> npt.NDArray[Any]:
    """Checks an observation, and returns a copy."""
    space, array = env.observation_space, np.array(observation, float)
    if array.shape != tuple(space.shape):
        raise _Failed(f"{where}: the observation has shape {array.shape}, its space {tuple(space.shape)}")
    if not np.isfinite(array).all():
        raise _Failed(f"{where}: the observation has {_shown(array[~np.isfinite(array)][0])}")
    text = "observations leave their space's bounds"
    if ((array < space.low) | (array > space.high)).any() and not any(w.startswith(text) for w in report.warnings):
        report.warnings.append(f"{text} ({where}), which training ignores")
    return array


def _action(space: Any, rng: np.random.Generator) -> Any:
    """Draws an action: uniform between bounds, standard normal where there are none."""
    if discrete := choices(space):
        return (rng.integers(discrete).reshape(space.shape).astype(space.dtype) + getattr(space, "start", 0))[()]
    low, high = np.asarray(space.low, float), np.asarray(space.high, float)
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, 0), np.where(bounded, high, 0)
    return np.where(bounded, rng.uniform(low, high), rng.normal(size=tuple(space.shape))).astype(space.dtype)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the findings."""
    parser = argparse.ArgumentParser(
        prog="python -m dbqpg.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", help="gymnasium:NAME, dm_control:DOMAIN/TASK or MODULE:CLASS")
    parser.add_argument("--kwargs", type=json.loads, default={}, metavar="JSON", help="arguments for the environment")
    parser.add_argument("--episodes", type=int, default=5, help="seeds to play, each twice (default 5)")
    parser.add_argument("--steps", type=int, default=1000, help="most steps of an episode (default 1000)")
    chosen = parser.parse_args(arguments)
    try:
        report = check(chosen.target, chosen.kwargs, chosen.episodes, chosen.steps)
    except (ImportError, ValueError) as error:
        sys.exit(f"python -m dbqpg.check: {error}")
    for error_text in report.errors:
        print("error:", error_text)
    for warning in report.warnings:
        print("warning:", warning)
    if report.lengths:
        print(
            f"{len(report.lengths)} episodes of {min(report.lengths)} to {max(report.lengths)} steps, returns "
            f"{min(report.returns):.4g} to {max(report.returns):.4g} by random actions, "
            f"{report.steps / report.seconds:.0f} steps per second"
        )
    if report.errors:
        sys.exit(1)
    print(f"{chosen.target} can be trained on" + ("" if report.warnings else "; no warnings"))


if __name__ == "__main__":
    main()

"""Environments that a server has to put up with, for test_environment.py."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np

from dbqpg.environment import Box

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Chatty:
    """Prints whatever it does, to standard output, from Python and from beneath it."""

    max_episode_steps = 20
    observation_space = Box(np.full(2, -np.inf), np.full(2, np.inf), (2,), np.float64)
    action_space = Box(np.full(1, -1.0), np.full(1, 1.0), (1,), np.float32)

    def __init__(self) -> None:
        print("a friendly library")

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        os.write(1, b"reset\n")
        self.state = np.random.default_rng(seed).normal(size=2)
        return self.state, {}

    def step(self, action: Any) -> Step:
        print("step", action)
        self.state = 0.9 * self.state + action
        return self.state, float(self.state[0]), False, False, {}


class Sings(Chatty):
    """Has actions that are no numbers."""

    action_space = "songs"  # type: ignore[assignment]


class Buttons(Chatty):
    """Has discrete actions of several components, counted from other numbers than 0, and says which it was given."""

    action_space = gymnasium.spaces.MultiDiscrete([2, 3], start=[5, -1])  # type: ignore[assignment]

    def step(self, action: Any) -> Step:
        assert self.action_space.contains(action), action
        return np.array(action, float), 1.0, False, False, {}


class Seedless(Chatty):
    """Ignores its seed."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset()


class Leaks(Chatty):
    """Keeps something of an episode for the next one."""

    steps = 0

    def step(self, action: Any) -> Step:
        self.steps += 1
        observation, reward, *ends = super().step(action)
        return observation, reward + self.steps, *ends  # type: ignore[return-value]


class Old(Chatty):
    """Has the API of old Gym."""

    def step(self, action: Any) -> Any:
        return np.zeros(2), 0.0, False, {}


class Diverges(Chatty):
    """Has a reward that is no number."""

    def step(self, action: Any) -> Step:
        return np.zeros(2), float("nan"), False, False, {}


class Raises(Chatty):
    """Raises an error at each step."""

    def step(self, action: Any) -> Step:
        raise RuntimeError("the gripper is lost")


class Grows(Chatty):
    """Has observations of another shape than it says."""

    def step(self, action: Any) -> Step:
        return np.zeros(3), 0.0, False, False, {}


class Dies(Chatty):
    """Ends the process, as a fault in a library does."""

    def step(self, action: Any) -> Step:
        os.write(2, b"Segmentation fault in gripper.c\n")
        os._exit(11)

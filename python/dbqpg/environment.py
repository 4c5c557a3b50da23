"""The process that simulates a task file's environments: `python -m dbqpg.environment TARGET`.

A target names an environment in Gymnasium's API:

    gymnasium:Humanoid-v5         what gymnasium.make makes; gymnasium:package:Name-v0 imports the package first
    dm_control:walker/walk        a task of dm_control's suite, its observations joined in their order
    module:Class                  a class of one's own, with observation_space, action_space, reset(seed=...) and step(action)

`--kwargs '{"forward_reward_weight": 2}'` are arguments for it, as JSON. dbqpg starts this process itself, and speaks with it as
described in docs/environments.md: it takes its place at standard input and output, so that whatever the environment
prints goes to standard error. `python -m dbqpg.describe TARGET` writes the task file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

VERSION = 1
TERMINATED, TRUNCATED, FAILED = 1, 2, 4

Floats = npt.NDArray[np.float64]


class Space(Protocol):
    """What is needed of a gymnasium.spaces.Box."""

    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def low(self) -> Any: ...
    @property
    def high(self) -> Any: ...


class Environment(Protocol):
    """What is needed of a gymnasium.Env. Its actions are a Box, Discrete, MultiDiscrete or MultiBinary."""

    @property
    def observation_space(self) -> Space: ...
    @property
    def action_space(self) -> Any: ...
    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]: ...
    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]: ...


class Box(NamedTuple):
    """A space of real numbers."""

    low: Floats
    high: Floats
    shape: tuple[int, ...]
    dtype: Any


class DMControl:
    """A task of dm_control's suite in Gymnasium's API."""

    def __init__(self, task: str, **kwargs: Any) -> None:
        from dm_control import suite

        domain, _, name = task.partition("/")
        self._env = suite.load(domain, name, **kwargs)
        action = self._env.action_spec()
        bounds = [np.broadcast_to(bound, action.shape) for bound in (action.minimum, action.maximum)]
        self.action_space = Box(bounds[0], bounds[1], action.shape, action.dtype)
        size = sum(int(np.prod(spec.shape)) for spec in self._env.observation_spec().values())
        unbounded = np.full(size, np.inf)
        self.observation_space = Box(-unbounded, unbounded, (size,), np.float64)
        limit = self._env._step_limit
        self.max_episode_steps = int(limit) if np.isfinite(limit) else None

    def reset(self, *, seed: int | None = None) -> tuple[Floats, dict[str, Any]]:
        if seed is not None:
            self._env.task.random.seed(seed)
        return self._join(self._env.reset()), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        time_step = self._env.step(action)
        terminated = time_step.last() and time_step.discount == 0
        return self._join(time_step), time_step.reward, terminated, time_step.last() and not terminated, {}

    def _join(self, time_step: Any) -> Floats:
        return np.concatenate([np.ravel(part) for part in time_step.observation.values()])


def make(target: str, kwargs: dict[str, Any]) -> Environment:
    """Makes an environment of a target, whose observations and actions are arrays of real numbers."""
    kind, colon, name = target.partition(":")
    if not colon or not name:
        raise ValueError(f"{target}: a target is gymnasium:NAME, dm_control:DOMAIN/TASK or MODULE:CLASS")
    env: Any
    if kind == "gymnasium":
        import gymnasium

        try:
            env = gymnasium.make(name, disable_env_checker=True, **kwargs)
        except gymnasium.error.Error as error:  # such as a name that is not registered
            raise ValueError(f"{target}: {error}") from error
    elif kind == "dm_control":
        env = DMControl(name, **kwargs)
    else:
        module = importlib.import_module(kind)
        if not hasattr(module, name):
            raise ValueError(f"{target}: the module {kind} has no {name}")
        env = getattr(module, name)(**kwargs)
    if not hasattr(env.observation_space, "low"):
        import gymnasium

        env = gymnasium.wrappers.FlattenObservation(env)
    if not hasattr(env.action_space, "low") and choices(env.action_space) is None:
        raise ValueError(
            f"{target}: its actions are {env.action_space}, and only a Box, Discrete, MultiDiscrete or MultiBinary can be learned"
        )
    return env  # type: ignore[no-any-return]


def size(space: Any) -> int:
    """How many numbers there are in a value of a space."""
    return int(np.prod(space.shape))


def choices(space: Any) -> list[int] | None:
    """How many choices there are for each number of a discrete action; None for other spaces."""
    if hasattr(space, "nvec"):  # MultiDiscrete
        return [int(n) for n in np.ravel(space.nvec)]
    if not hasattr(space, "n"):
        return None
    return [2] * size(space) if space.shape else [int(space.n)]  # MultiBinary, Discrete


class ShapeError(ValueError):
    """An observation of another shape than its space."""


def explain(error: Exception) -> str:
    """What went wrong, and the last calls before it."""
    if isinstance(error, ShapeError):
        return str(error)
    return "".join(traceback.format_exception(error, limit=-6, chain=False))


class Server:
    """Answers the requests of one program, over two binary files."""

    def __init__(self, create: Callable[[], Environment], source: BinaryIO, sink: BinaryIO) -> None:
        try:
            import msgpack
        except ImportError as error:
            raise ImportError("msgpack is missing: pip install 'dbqpg[gymnasium]', or msgpack alone") from error
        self._pack: Callable[[Any], bytes] = msgpack.packb
        self._unpack: Callable[[bytes], list[Any]] = msgpack.unpackb
        self._create = create
        self._source, self._sink = source, sink
        self._environments: list[Environment] = []

    def run(self) -> None:
        """Serves until the program closes its end."""
        answers: dict[str, Callable[..., list[Any]]] = {"step": self._step, "reset": self._reset, "hello": self._hello}
        while len(prefix := self._source.read(4)) == 4:
            kind, *arguments = self._unpack(self._source.read(struct.unpack(">I", prefix)[0]))
            try:
                answer = answers[kind](*arguments)
            except Exception as error:
                answer = ["error", explain(error)]
            packed = self._pack(answer)
            self._sink.write(struct.pack(">I", len(packed)) + packed)

    def _hello(self, version: int, environments: int) -> list[Any]:
        if version != VERSION:
            raise ValueError(f"this is version {VERSION} of the protocol, the program has version {version}")
        self._environments = [self._create() for _ in range(environments)]
        first = self._environments[0]
        self._shape = tuple(first.observation_space.shape)
        self._action = tuple(first.action_space.shape)
        self._dtype = first.action_space.dtype
        self._start = getattr(first.action_space, "start", None)  # of discrete actions
        self._rows = np.zeros((environments, *self._shape))
        discrete = choices(first.action_space)
        return ["hello", VERSION, size(first.observation_space), size(first.action_space), *([discrete] if discrete else [])]

    def _reset(self, index: int, seed: int) -> list[Any]:
        observation, _ = self._environments[index].reset(seed=seed)
        self._observe(0, observation)
        return ["reset", self._rows[0].tobytes()]

    def _step(self, indices: list[int], packed: bytes) -> list[Any]:
        n = len(indices)
        actions = np.frombuffer(packed).reshape(n, *self._action).astype(self._dtype)
        if self._start is not None:
            actions = actions + self._start
        rewards, ends, errors = [0.0] * n, bytearray(n), []
        for row, index in enumerate(indices):
            try:
                observation, reward, terminated, truncated, _ = self._environments[index].step(actions[row])
                self._observe(row, observation)
                rewards[row] = float(reward)
                if terminated:
                    ends[row] = TERMINATED
                if truncated:
                    ends[row] |= TRUNCATED
            except Exception as error:
                self._rows[row], ends[row] = 0, FAILED
                errors.append(explain(error))
        return ["step", self._rows[:n].tobytes(), struct.pack(f"<{n}d", *rewards), bytes(ends), errors]

    def _observe(self, row: int, observation: Any) -> None:
        shape = np.shape(observation)
        if shape != self._shape:
            raise ShapeError(f"an observation has shape {shape}, and its space {self._shape}")
        self._rows[row] = observation


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves a target on standard input and output, in whose places standard error and an empty input remain."""
    parser = argparse.ArgumentParser(
        prog="python -m dbqpg.environment", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target")
    parser.add_argument("--kwargs", type=json.loads, default={}, metavar="JSON")
    chosen = parser.parse_args(arguments)
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # which does not wait with what is printed
    Server(lambda: make(chosen.target, chosen.kwargs), source, sink).run()


if __name__ == "__main__":
    main()

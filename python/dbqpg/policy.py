"""Trained policies, played with NumPy alone."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt

from dbqpg import hub, tensors

Floats = npt.NDArray[np.float64]

# What is added to the standard deviation of observations: dimensions that never vary stay finite.
STD_FLOOR = 1e-8


class Policy:
    """A policy with a tanh network: Gaussian, or categorical where actions are discrete.

    `policy(observation)` is the mean action within the action space's bounds; `policy(observation, deterministic=False)`
    samples from the policy with `policy.rng`, as in training: without bounds, which are the environment's to apply. One
    observation (o,) or a batch (n, o) gives an action (a,) or (n, a), float32.

    A discrete action is an index from 0, int64: the likeliest, or a sampled one. If actions have a single component, as
    those of Gymnasium's Discrete, the result is a scalar or (n,).
    """

    def __init__(self, arrays: dict[str, npt.NDArray[Any]], metadata: dict[str, str], rng: np.random.Generator) -> None:
        self.metadata = metadata
        self.rng = rng
        self.task = metadata.get("task") or metadata.get("setting.env", "")
        self.clip = float(metadata.get("observation_clip") or metadata.get("setting.clip", "0")) or np.inf
        self.layers: list[tuple[Floats, Floats]] = []
        while f"policy.{len(self.layers)}.weight" in arrays:
            self.layers.append((
                _floats(arrays, f"policy.{len(self.layers)}.weight", 2),
                _floats(arrays, f"policy.{len(self.layers)}.bias", 1),
            ))
        if not self.layers:
            raise ValueError("there is no policy in it; checkpoints of earlier versions can be exported with learner export")
        self.mean, self.std = _normalizer(arrays)
        self.choices = _floats(arrays, "action.choices", 1).astype(int).tolist() if "action.choices" in arrays else []
        self.log_std = np.zeros(0) if self.choices else _floats(arrays, "log_std", 1)
        self.low, self.high = (_floats(arrays, name, 1, finite=False) for name in ("action.low", "action.high"))
        self._check()

    @property
    def observation_dim(self) -> int:
        return len(self.mean)

    @property
    def action_dim(self) -> int:
        return len(self.low)

    def _check(self) -> None:
        sizes = [self.observation_dim, *(len(bias) for _, bias in self.layers)]
        for i, (weight, bias) in enumerate(self.layers):
            if weight.shape != (sizes[i + 1], sizes[i]):
                raise ValueError(f"policy.{i}.weight has shape {weight.shape}, want {(sizes[i + 1], sizes[i])}")
        if self.choices and (min(self.choices) < 1 or sum(self.choices) != sizes[-1]):
            raise ValueError(f"action.choices {self.choices} do not fit {sizes[-1]} outputs")
        actions = len(self.choices) or sizes[-1]
        for name, values, want in [
            ("the normaliser's std", self.std, sizes[0]), ("log_std", self.log_std, 0 if self.choices else actions),
            ("action.low", self.low, actions), ("action.high", self.high, actions),
        ]:
            if len(values) != want:
                raise ValueError(f"{name} has {len(values)} elements, want {want}")
        if (self.std < 0).any() or not (self.low <= self.high).all() or not self.clip > 0:
            raise ValueError("a standard deviation, the actions' bounds or the observations' clip makes no sense")

    def distribution(self, observation: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Returns the mean and the standard deviation of the action, before it is clipped: those of a Gaussian policy."""
        if self.choices:
            raise ValueError("the policy's actions are discrete: it has probabilities")
        return self._outputs(observation), np.exp(self.log_std)

    def probabilities(self, observation: npt.ArrayLike) -> list[Floats]:
        """Returns the probabilities of each component's choices, (k,) or (n, k): those of a categorical policy."""
        if not self.choices:
            raise ValueError("the policy is Gaussian: it has a distribution")
        logits = np.split(self._outputs(observation), np.cumsum(self.choices)[:-1], axis=-1)
        weights = [np.exp(z - z.max(-1, keepdims=True)) for z in logits]
        return [w / w.sum(-1, keepdims=True) for w in weights]

    def _outputs(self, observation: npt.ArrayLike) -> Floats:
        # Observations are float32 in training too.
        x = np.asarray(observation, np.float32).astype(np.float64)
        if x.ndim not in (1, 2) or x.shape[-1] != self.observation_dim:
            raise ValueError(f"observations of shape {x.shape}, want ({self.observation_dim},) or (n, {self.observation_dim})")
        x = np.clip((x - self.mean) / (self.std + STD_FLOOR), -self.clip, self.clip)
        for i, (weight, bias) in enumerate(self.layers):
            x = x @ weight.T + bias
            if i < len(self.layers) - 1:
                x = np.tanh(x)
        return x

    def __call__(self, observation: npt.ArrayLike, deterministic: bool = True) -> npt.NDArray[Any]:
        if self.choices:
            return self._choose(self.probabilities(observation), deterministic)
        action, std = self.distribution(observation)
        if deterministic:
            action = np.clip(action, self.low, self.high)
        else:
            action = action + std * self.rng.standard_normal(action.shape)
        return action.astype(np.float32)

    def _choose(self, probabilities: list[Floats], deterministic: bool) -> npt.NDArray[np.int64]:
        chosen = []
        for p in probabilities:
            if deterministic:
                chosen.append(p.argmax(-1))
            else:
                quantile = self.rng.random(p.shape[:-1])[..., None]
                chosen.append((p.cumsum(-1)[..., :-1] <= quantile).sum(-1))
        action = np.stack(chosen, axis=-1)
        return action[..., 0] if len(chosen) == 1 else action

    def predict(
        self, observation: npt.ArrayLike, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[npt.NDArray[Any], None]:
        """The policy as Stable-Baselines3's tools call it, such as evaluate_policy."""
        return self(observation, deterministic), None

    def __repr__(self) -> str:
        sizes = [self.observation_dim, *(len(bias) for _, bias in self.layers)]
        return f"Policy({self.task}, layers {sizes})"


def load(path: str | os.PathLike[str], checkpoint: str | int = "best", seed: int | None = None) -> Policy:
    """Loads a policy.

    path is a folder of `learner export`, a run's directory, a file (policy.safetensors or a checkpoint), or the name of a
    trained policy, "hub:Hopper-v5" (dbqpg.hub). checkpoint says which of a run's, "best", "newest" or an iteration's
    number. seed is that of sampled actions.
    """
    file = find(path, checkpoint)
    arrays, metadata = tensors.read(file)
    try:
        return Policy(arrays, metadata, np.random.default_rng(seed))
    except (KeyError, ValueError) as error:
        raise ValueError(f"{file}: {error.args[0]}") from error


def find(path: str | os.PathLike[str], checkpoint: str | int = "best") -> pathlib.Path:
    """Returns the file that load reads."""
    name = os.fspath(path)
    place = hub.fetch(name.removeprefix(hub.SCHEME)) if name.startswith(hub.SCHEME) else pathlib.Path(path)
    if place.is_file():
        return place
    if (place / "policy.safetensors").is_file():
        return place / "policy.safetensors"
    folder = home(place) / "checkpoints"
    if checkpoint == "best":
        file = folder / "best.safetensors"
    elif checkpoint == "newest":
        file = max(folder.glob("iteration-*.safetensors"), default=folder / "iteration-*.safetensors")
    else:
        file = folder / f"iteration-{int(checkpoint):08d}.safetensors"
    if not file.is_file():
        raise FileNotFoundError(f"{place}: neither a policy nor a run with a checkpoint {checkpoint}: there is no {file}")
    return file


def home(run: pathlib.Path) -> pathlib.Path:
    """Returns the directory that has a run's files: its own, or, of runs that workers trained, the last one's latest epoch."""
    for kind in ("id-", "epoch-"):
        numbers = [place.name.removeprefix(kind) for place in run.glob(kind + "*") if place.is_dir()]
        if latest := max((number for number in numbers if number.isdecimal()), key=int, default=""):
            run = run / (kind + latest)
    return run


def _normalizer(arrays: dict[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    """Returns the observations' mean and standard deviation. A checkpoint has the sum of squared deviations."""
    mean = _floats(arrays, "normalizer.mean", 1)
    if "normalizer.std" in arrays:
        return mean, _floats(arrays, "normalizer.std", 1)
    m2, (count,) = _floats(arrays, "normalizer.m2", 1), _floats(arrays, "normalizer.count", 1)
    if count < 2:
        return np.zeros_like(mean), np.ones_like(mean)
    return mean, np.sqrt(m2 / (count - 1))


def _floats(arrays: dict[str, npt.NDArray[Any]], name: str, dimensions: int, finite: bool = True) -> Floats:
    if name not in arrays:
        raise ValueError(f"there is no {name} in it")
    array = np.asarray(arrays[name], np.float64)
    if array.ndim != dimensions or array.size == 0 or np.isnan(array).any() or finite and np.isinf(array).any():
        raise ValueError(f"{name} of shape {array.shape} is empty, not finite or of another shape")
    return array

"""A robot and a reward of one's own: a pole to be balanced on a cart, the model in balance.xml and the rest in a class.

    cd python/examples
    python -m dbqpg.describe balance:Balance > balance.yaml
    go run ../../learner --task balance.yaml
"""

import pathlib
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box

Floats = npt.NDArray[np.float64]


class Balance:
    """Observes positions and velocities (4), and pays 1 a step for an upright pole near the middle, less for effort. The
    episode ends when the pole leans by 0.5 rad or the cart reaches an end of the rail."""

    max_episode_steps = 500
    frame_skip = 2

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_path(str(pathlib.Path(__file__).with_name("balance.xml")))
        self.data = mujoco.MjData(self.model)
        size = self.model.nq + self.model.nv
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float64)
        low, high = self.model.actuator_ctrlrange.T
        self.action_space = Box(low, high, dtype=np.float64)

    def reset(self, *, seed: int | None = None) -> tuple[Floats, dict[str, Any]]:
        random = np.random.default_rng(seed)  # all randomness comes from the seed
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = random.uniform(-0.05, 0.05, self.model.nq)
        return self.observe(), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, self.frame_skip)
        position, angle = self.data.qpos
        reward = 1 - position**2 - 0.01 * float(action @ action)
        fallen = abs(angle) > 0.5 or abs(position) > 0.95
        return self.observe(), reward, fallen, False, {}

    def observe(self) -> Floats:
        return np.concatenate([self.data.qpos, self.data.qvel])

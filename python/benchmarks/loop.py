"""Gymnasium's own loop, which BenchmarkGymnasium (internal/rollout) compares with: for each number of steps on standard input it
takes these, with actions drawn before, and prints the seconds of processor time that they took."""

import sys
import time

import gymnasium
import numpy as np

env = gymnasium.make(sys.argv[1])
random = np.random.default_rng(1)
space = env.action_space
actions = np.clip(random.normal(size=(1000, *space.shape)), space.low, space.high).astype(space.dtype)
seed = 0
env.reset(seed=seed)
for line in sys.stdin:
    start = time.process_time()
    for step in range(int(line)):
        _, _, terminated, truncated, _ = env.step(actions[step % len(actions)])
        if terminated or truncated:
            seed += 1
            env.reset(seed=seed)
    print(time.process_time() - start, flush=True)

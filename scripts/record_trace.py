"""Records how Gymnasium plays a task, for the tests of sim/tasks to compare with.

    make python    # an environment with Gymnasium, in .deps/python
    .deps/python/bin/python scripts/record_trace.py --env Hopper-v5 --out sim/tasks/testdata/Hopper-v5.npz

NAME-v2, which Gymnasium no longer has, is its v4 with all external contact forces zero, as MuJoCo 2.0 left them;
Ant-v2 observes them. The file holds:

    init_qpos, init_qvel, actions (T, a)   the initial state and what is played, some of it out of range
    observations (T+1, o), rewards, terminated (T)   the answer; the trace goes on after a termination
    action_low, action_high (a), time_limit (1)   the action space, and the length of an episode
    reset_quantiles (21, nq+nv)   positions and velocities after a reset: quantiles 0, 0.05, ..., 1
    limit_states (l, nq+nv), limit_terminated (l)   whether a step without action ends the episode in pairs of
                                  states, just inside and just outside of each limit
"""

import argparse

import gymnasium
import mujoco
import numpy as np

RESETS = 20_000


def make(name):
    family, _, version = name.rpartition("-v")
    if version != "2":
        return gymnasium.make(name)
    mujoco.mj_rnePostConstraint = lambda model, data: None
    return gymnasium.make(f"{family}-v4", **({"use_contact_forces": True} if family == "Ant" else {}))


def trace(env, qpos, qvel, actions):
    """Plays the actions from a state."""
    env.reset()
    env.set_state(qpos, qvel)
    observations, rewards, terminated = [env._get_obs()], [], []
    for action in actions:
        observation, reward, over, _, _ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
        terminated.append(over)
    return {
        "init_qpos": qpos, "init_qvel": qvel, "actions": actions, "observations": np.array(observations),
        "rewards": np.array(rewards, dtype=float), "terminated": np.array(terminated, dtype=bool),
    }


def state(env):
    return np.concatenate([env.data.qpos, env.data.qvel])


def reset_quantiles(env, seed):
    env.reset(seed=seed)
    samples = []
    for _ in range(RESETS):
        env.reset()
        samples.append(state(env))
    return np.quantile(samples, np.linspace(0, 1, 21), axis=0, method="nearest")


def ends(env, start):
    """Whether a step without action from that state ends the episode; None where the engine diverges."""
    env.reset()
    env.set_state(*np.split(start, [env.model.nq]))
    _, _, terminated, _, _ = env.step(np.zeros(env.model.nu))
    return None if env.data.warning.number.any() else bool(terminated)


def limits(env):
    """Pairs of states on either side of each limit: along each coordinate, up and down from the initial state."""
    initial = np.concatenate([env.init_qpos, env.init_qvel])
    states, terminated = [], []
    for i in range(len(initial)):
        for direction in (-1, 1):
            def at(distance):
                moved = initial.copy()
                moved[i] += direction * distance
                return moved

            inside, outside = 0.0, 1 / 64
            while outside < 256 and ends(env, at(outside)) is False:
                inside, outside = outside, 2 * outside
            if not ends(env, at(outside)):
                continue
            while outside - inside > 1e-6:
                middle = (inside + outside) / 2
                if ends(env, at(middle)):
                    outside = middle
                else:
                    inside = middle
            if ends(env, at(inside)) is False:
                states += [at(inside), at(outside)]
                terminated += [False, True]
    return np.array(states).reshape(-1, len(initial)), np.array(terminated, dtype=bool)


def main():
    parser = argparse.ArgumentParser(description="Record how Gymnasium plays a task.")
    parser.add_argument("--env", required=True, metavar="ID", help="task, e.g. Ant-v5")
    parser.add_argument("--steps", type=int, default=60, metavar="N", help="length of the trace (60)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the initial state and the actions (1)")
    parser.add_argument("--from", dest="source", metavar="FILE", help="play the initial state and the actions of this trace instead")
    parser.add_argument("--out", required=True, metavar="FILE", help="npz file to write")
    args = parser.parse_args()

    gymnasium.logger.min_level = gymnasium.logger.ERROR
    mujoco.set_mju_user_warning(lambda message: None)  # of states that diverge, on the way to the limits
    wrapped = make(args.env)
    env, space = wrapped.unwrapped, wrapped.action_space
    rng = np.random.default_rng(args.seed)
    env.reset(seed=args.seed)
    if args.source:
        with np.load(args.source) as source:
            qpos, qvel, actions = source["init_qpos"], source["init_qvel"], source["actions"]
    else:
        qpos, qvel = env.data.qpos.copy(), env.data.qvel.copy()
        actions = 0.6 * rng.standard_normal((args.steps, env.model.nu)) * space.high
    recorded = trace(env, qpos, qvel, actions)
    states, terminated = limits(env)
    np.savez_compressed(
        args.out, **recorded, action_low=space.low, action_high=space.high,
        time_limit=np.array([wrapped.spec.max_episode_steps]), reset_quantiles=reset_quantiles(env, args.seed),
        limit_states=states, limit_terminated=terminated)
    print(f"{args.out}: {len(actions)} steps, {len(states) // 2} limits")


main()

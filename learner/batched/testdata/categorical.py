"""Writes categorical.npz: a batch of a categorical policy with its exact answers, for golden_test.go.

The computation shares nothing with the Go code: derivatives are complex steps through the log-probabilities, exact to
rounding, and expectations are sums over all actions. It needs NumPy: python3 categorical.py
"""

import itertools
import pathlib

import numpy as np

SIZES = (4, 6, 5, 7)  # observation, hidden layers, logits
CHOICES = (3, 4)
SAMPLES = 40
DAMPING = 0.1


def log_probabilities(params, observations):
    """Log-probabilities of each choice, one matrix per component of the action."""
    x = observations
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(SIZES)):
        weights, params = params[: outputs * inputs].reshape(outputs, inputs), params[outputs * inputs :]
        x, params = x @ weights.T + params[:outputs], params[outputs:]
        if layer < len(SIZES) - 2:
            x = np.tanh(x)
    parts = np.split(x, np.cumsum(CHOICES)[:-1], axis=1)
    return [z - np.log(np.exp(z).sum(1, keepdims=True)) for z in parts]


def log_prob(params, observations, actions):
    rows = np.arange(len(observations))
    parts = log_probabilities(params, observations)
    return sum(part[rows, action] for part, action in zip(parts, actions.T, strict=True))


def scores(params, observations, actions):
    """The gradients of the samples' log-probabilities, p x n."""
    step = 1e-30
    columns = []
    for i in range(len(params)):
        moved = params.astype(complex)
        moved[i] += 1j * step
        columns.append(log_prob(moved, observations, actions).imag / step)
    return np.array(columns)


def main():
    rng = np.random.default_rng(39)
    total = sum(outputs * (inputs + 1) for inputs, outputs in itertools.pairwise(SIZES))
    params, other = 0.7 * rng.standard_normal(total), 0.7 * rng.standard_normal(total)
    observations = rng.standard_normal((SAMPLES, SIZES[0]))
    actions = np.stack([rng.integers(size, size=SAMPLES) for size in CHOICES], axis=1)
    weights = rng.standard_normal(SAMPLES) / SAMPLES
    directions = rng.standard_normal((total, 2))

    every = list(itertools.product(*map(range, CHOICES)))
    fisher, kl, entropy = DAMPING * np.eye(total), 0.0, 0.0
    for action in every:
        same = np.tile(action, (SAMPLES, 1))
        log_p, log_q = log_prob(params, observations, same), log_prob(other, observations, same)
        u = scores(params, observations, same)
        fisher += u * np.exp(log_p) / SAMPLES @ u.T
        kl += np.mean(np.exp(log_p) * (log_p - log_q))
        entropy -= np.mean(np.exp(log_p) * log_p)
    u = scores(params, observations, actions)
    np.savez(
        pathlib.Path(__file__).with_suffix(".npz"),
        params=params,
        other=other,
        observations=observations,
        actions=actions.astype(float),
        weights=weights,
        directions=directions,
        damping=np.array([DAMPING]),
        expect_log_prob=log_prob(params, observations, actions),
        expect_gradient=u @ weights,
        expect_natural=np.linalg.solve(fisher, u @ weights),
        expect_empirical=np.ascontiguousarray(u @ (u.T @ directions) / SAMPLES),
        expect_fisher=np.ascontiguousarray(fisher @ directions),
        expect_compressed=np.ascontiguousarray(directions.T @ fisher @ directions),
        expect_kl=np.array([kl]),
        expect_entropy=np.array([entropy]),
        expect_surrogate=np.array(
            [np.sum(weights * np.expm1(log_prob(other, observations, actions) - log_prob(params, observations, actions)))]
        ),
    )


if __name__ == "__main__":
    main()

"""Times the matrix products of an update in PyTorch, in float64, as a reference for the GPU backend: medians over the rounds.

The shapes are those of HumanoidStandup-v2 (376 observations, hidden layers of 64, rank 140) for several batch sizes.
"""

import statistics

import torch

ROUNDS = 20


def milliseconds(product):
    times = []
    for round in range(ROUNDS + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        product()
        end.record()
        end.synchronize()
        if round >= 3:  # after a warm-up
            times.append(start.elapsed_time(end))
    return statistics.median(times)


def report(name, flops, product):
    took = milliseconds(product)
    print(f"{name:44s} {took:10.3f} ms {flops / took / 1e9:8.3f} TFLOP/s")


def normal(rows, cols):
    return torch.randn(rows, cols, dtype=torch.float64, device="cuda")


def main():
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name(0)}")
    a, b = normal(4096, 4096), normal(4096, 4096)
    report("4096 x 4096 by 4096 x 4096", 2 * 4096**3, lambda: a @ b)
    for n in (5_000, 15_000, 45_000, 150_000):
        for k, m in ((376, 64), (64, 64), (376, 256), (256, 256)):
            x, w, d = normal(n, k), normal(k, m), normal(n, m)
            report(f"{n} x {k} by {k} x {m} (forward)", 2 * n * k * m, lambda: x @ w)
            report(f"{k} x {n} by {n} x {m} (gradient)", 2 * n * k * m, lambda: x.T @ d)
            report(f"{n} x {m} by {m} x {k} (backward)", 2 * n * k * m, lambda: d @ w.T)
        features = normal(n, 140)
        report(f"140 x {n} by {n} x 140 (Gram)", 2 * n * 140 * 140, lambda: features.T @ features)


main()

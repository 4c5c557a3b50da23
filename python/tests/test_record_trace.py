"""The recorder of traces, scripts/record_trace.py: it records again what is committed, and the tasks agree."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT


def record(env: str, out: pathlib.Path, *options: object) -> dict[str, np.ndarray]:
    command = [sys.executable, str(ROOT / "scripts/record_trace.py"), "--env", env, "--out", str(out), *map(str, options)]
    subprocess.run(command, check=True, capture_output=True, cwd=out.parent)
    with np.load(out) as trace:
        return dict(trace)


# Ant-v2: without the contact forces that Gymnasium computes.
@pytest.mark.parametrize("env", ["Ant-v2", "InvertedPendulum-v5"])
def test_committed_trace(env: str, tmp_path: pathlib.Path) -> None:
    committed = ROOT / f"sim/tasks/testdata/{env}.npz"
    again = record(env, tmp_path / "again.npz", "--from", committed)
    with np.load(committed) as trace:
        assert set(again) == set(trace)
        for name, values in again.items():
            np.testing.assert_allclose(values, trace[name], rtol=1e-9, atol=1e-9, err_msg=name)


def test_task_agrees(tmp_path: pathlib.Path) -> None:
    assert len(record("Reacher-v5", tmp_path / "Reacher-v5.npz", "--steps", 20, "--seed", 7)["rewards"]) == 20
    test = ["go", "test", "./sim/tasks", "-run", "TestGoldenTraces/Reacher-v5", "-traces", str(tmp_path)]
    subprocess.run(test, check=True, cwd=ROOT)

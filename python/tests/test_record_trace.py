"""The recorder of traces, scripts/record_trace.py: it records again what is committed, and `actor trace` agrees."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, Run


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


def test_actor_replays(program: Run, tmp_path: pathlib.Path) -> None:
    theirs = record("Reacher-v5", tmp_path / "theirs.npz", "--steps", 20, "--seed", 7)
    program("actor", "trace", "--env", "Reacher-v5", "--from", tmp_path / "theirs.npz", "--out", tmp_path / "mine.npz")
    with np.load(tmp_path / "mine.npz") as mine:
        assert len(mine["rewards"]) == 20
        for name, values in mine.items():
            np.testing.assert_allclose(values, theirs[name], rtol=1e-9, atol=1e-9, err_msg=name)

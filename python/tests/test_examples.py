"""The examples run as they are."""

import os
import pathlib
import subprocess
import sys

from conftest import PROGRAMS, ROOT


def test_train_and_plot(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "python/examples/train_and_plot.py"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {
            "LEARNER": str(PROGRAMS / "learner"), "RUN_DIR": str(tmp_path / "run"), "ITERATIONS": "2", "EPISODES": "1",
            "SETTINGS": "--batch 500 --rank 10 --evaluate-every 1 --actors 1 --listen 127.0.0.1:0",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "over 1 episodes" in done.stdout
    assert (tmp_path / "run/returns.png").stat().st_size > 10_000

"""Policies by name: packed, then fetched by both programs and the package."""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import PROGRAMS, ROOT, Run

import dbqpg


def test_packs_and_fetches(trained: pathlib.Path, program: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(trained, tmp_path / "runs/a")
    subprocess.run(
        [sys.executable, ROOT / "scripts/policies.py", PROGRAMS / "learner", tmp_path / "runs", tmp_path / "hub"], check=True
    )
    for hub in (tmp_path / "hub").as_uri(), str(tmp_path / "hub"):
        monkeypatch.setenv("DBQPG_HUB", hub)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / hub[:4]))
        policy, own = dbqpg.load("hub:Swimmer-v2", seed=1), dbqpg.load(trained, seed=1)
        np.testing.assert_array_equal(policy(np.ones(8), deterministic=False), own(np.ones(8), deterministic=False))
    assert "Swimmer-v2" in program("learner", "evaluate", "hub:Swimmer-v2", "--episodes", 2)
    (cached,) = (tmp_path / hub[:4] / "dbqpg").glob("*/*")  # by the package and by the program
    assert "--rank 10" in (cached / "README.md").read_text() and "--batch 500" in (cached / "README.md").read_text()
    with pytest.raises(FileNotFoundError, match="it has Swimmer-v2"):
        dbqpg.load("hub:Hopper-v5")
    shutil.rmtree(cached)
    with (tmp_path / "hub/Swimmer-v2.zip").open("ab") as archive:
        archive.write(b"x")
    with pytest.raises(ValueError, match="SHA-256"):
        dbqpg.load("hub:Swimmer-v2")
    assert not any(cached.parent.iterdir())

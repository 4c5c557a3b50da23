"""The programs as commands, and training that is started from Python."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import PROGRAMS

import dbqpg

SHORT = {"batch": 500, "rank": 10, "evaluate_every": 1, "actors": 1, "listen": "127.0.0.1:0", "http": "off", "quiet": True}


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBQPG_PROGRAMS", str(PROGRAMS))


def command(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; from dbqpg import command; sys.argv = {[name, *arguments]!r}; command.{name}()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("call", ["learner --help", "actor --help", "coordinator --help", "dbqpg evaluate --help", "dbqpg train --help"])
def test_commands_are_the_programs(call: str) -> None:
    name, *arguments = call.split()
    program, *rest = call.replace("dbqpg train", "learner").replace("dbqpg", "learner").split()
    want = subprocess.run([PROGRAMS / program, *rest], capture_output=True, text=True).stdout
    assert command(name, *arguments).stdout == want != ""


def test_says_that_programs_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBQPG_PROGRAMS")  # and this is a checkout
    done = command("learner")
    assert done.returncode == 1 and "make wheel" in done.stderr
    with pytest.raises(FileNotFoundError, match="make wheel"):
        dbqpg.train("Swimmer-v2")


def test_trains_and_resumes(tmp_path: pathlib.Path) -> None:
    training = dbqpg.train("Swimmer-v2", iterations=3, hidden=[8, 8], run_dir=tmp_path / "a b", **SHORT)
    rows = list(training)
    assert [row["iteration"] for row in rows] == [0, 1, 2] and type(rows[0]["iteration"]) is int
    assert np.isfinite([row["return_mean"] for row in rows]).all()
    assert training.run.settings["hidden"] == "[8, 8]" and training.run.progress.rows == 3
    rows = list(dbqpg.train(run_dir=tmp_path / "a b", resume=True, iterations=5, quiet=True))
    assert [row["iteration"] for row in rows] == [3, 4]
    assert np.isfinite([row["mean_action_return"] for row in rows]).all()


def test_stops_with_its_loop(tmp_path: pathlib.Path) -> None:
    training = dbqpg.train("Swimmer-v2", iterations=10_000, run_dir=tmp_path / "run", **SHORT)
    for row in training:
        if row["iteration"] == 2:
            break
    assert training._process.returncode == 130
    assert training.run.progress.rows >= 3 and training.run.policy("newest").task == "Swimmer-v2"


def test_refuses_what_the_program_refuses(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="unknown task"):
        dbqpg.train("Swimer-v5")
    with pytest.raises(ValueError, match="--gae-lambda"):
        dbqpg.train("Swimmer-v5", gae_lamda=0.9)
    os.mkdir(tmp_path / "run")
    (tmp_path / "run/checkpoints").touch()
    with pytest.raises((ValueError, dbqpg.TrainingError)):
        list(dbqpg.train("Swimmer-v5", run_dir=tmp_path / "run", **SHORT))

"""The check of environments before training."""

import subprocess
import sys

import pytest
from conftest import ROOT

from dbqpg.check import check

TARGETS = ["gymnasium:Hopper-v5", "gymnasium:CartPole-v1", "dm_control:cartpole/balance", "awkward:Chatty", "awkward:Buttons"]


@pytest.mark.parametrize("target", TARGETS)
def test_finds_nothing_wrong(target: str) -> None:
    report = check(target, episodes=2, steps=60)
    assert report.errors == [] and [w for w in report.warnings if "differ" in w or "every seed" in w] == []
    assert len(report.lengths) == 2 and report.steps == sum(report.lengths) > 0 and report.seconds > 0


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("awkward:Raises", "step 1 of seed 1 raises RuntimeError: the gripper is lost"),
        ("awkward:Grows", "the observation has shape (3,), its space (2,)"),
        ("awkward:Old", "not (observation, reward, terminated, truncated, info)"),
        ("awkward:Diverges", "the reward is nan, not a finite number"),
    ],
)
def test_errors(target: str, words: str) -> None:
    (error,) = check(target).errors
    assert words in error


@pytest.mark.parametrize(
    ("target", "words"),
    [("awkward:Seedless", "of seed 1 with the same actions differ after reset"), ("awkward:Leaks", "of seed 2 with the same actions differ after step 1")],
)
def test_episodes_that_are_no_functions_of_their_seeds(target: str, words: str) -> None:
    report = check(target)
    assert report.errors == [] and any(words in warning for warning in report.warnings), report.warnings


def test_command() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dbqpg.check", *arguments], cwd=ROOT / "python/examples", capture_output=True, text=True
        )

    done = run("balance:Balance", "--episodes", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps per second" in done.stdout and "balance:Balance can be trained on; no warnings" in done.stdout
    done = run("balance:Balanc")
    assert done.returncode == 1 and done.stderr == "python -m dbqpg.check: balance:Balanc: the module balance has no Balanc\n"

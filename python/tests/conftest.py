"""What the tests share: the real programs."""

import pathlib
import subprocess
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / ".deps/python/programs"

Run = Callable[..., str]


@pytest.fixture(scope="session")
def program() -> Run:
    """Returns a function that runs one of the programs, `program("learner", "--help")`, and returns what it prints."""

    def run(name: str, *arguments: object) -> str:
        command = [str(PROGRAMS / name), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run

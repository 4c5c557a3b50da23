"""What the tests share: the real programs, and a run that they trained."""

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


@pytest.fixture(scope="session")
def trained(program: Run, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Returns the directory of a short run."""
    directory = tmp_path_factory.mktemp("runs") / "Swimmer-v2" / "short"
    program(
        "learner", "--env", "Swimmer-v2", "--iterations", 2, "--batch", 500, "--rank", 10, "--evaluate-every", 1,
        "--actors", 1, "--listen", "127.0.0.1:0", "--run-dir", directory,
    )
    return directory


@pytest.fixture(scope="session")
def exported(program: Run, trained: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Returns the folder to which that run's best policy was exported."""
    folder = tmp_path_factory.mktemp("exported") / "swimmer"
    program("learner", "export", trained, "--to", folder, "--episodes", 2, "--replay=false")
    return folder

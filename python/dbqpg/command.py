"""The programs learner, actor and coordinator, which the wheel for Linux has inside, as commands."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn


def program(name: str) -> pathlib.Path:
    """Returns the path of a program: in the folder that the environment variable DBQPG_PROGRAMS names, or in the package."""
    folder = pathlib.Path(os.environ.get("DBQPG_PROGRAMS") or pathlib.Path(__file__).with_name("programs") / "bin")
    path = folder.absolute() / name
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path}: install the wheel of make wheel, which has the programs inside, or build them "
            f"(go build -o bin/ ./learner ./actor ./coordinator) and set DBQPG_PROGRAMS=bin"
        )
    return path


def run(name: str, arguments: list[str]) -> NoReturn:
    """Becomes a program: signals and the exit status are its own."""
    try:
        path = program(name)
    except FileNotFoundError as error:
        sys.exit(f"{name}: {error}")
    os.execv(path, [name, *arguments])


def learner() -> NoReturn:
    run("learner", sys.argv[1:])


def actor() -> NoReturn:
    run("actor", sys.argv[1:])


def coordinator() -> NoReturn:
    run("coordinator", sys.argv[1:])


def dbqpg() -> NoReturn:
    """`dbqpg train` is learner, `dbqpg actor` and `dbqpg coordinator` are those, and `dbqpg NAME` is `learner NAME`."""
    match sys.argv[1:]:
        case ["train", *rest]:
            run("learner", rest)
        case ["actor" | "coordinator" as name, *rest]:
            run(name, rest)
        case rest:
            run("learner", rest)

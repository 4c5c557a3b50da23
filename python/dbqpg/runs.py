"""What runs leave behind: settings, the progress of training, evaluations."""

from __future__ import annotations

import csv
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dbqpg.policy import Policy, home, load

COUNTS = {"iteration", "steps", "episodes"}
IDENTITY = ("env", "algorithm", "estimator", "seed")


class Table(Mapping[str, npt.NDArray[Any]]):
    """Columns by name, as arrays: `table["return_mean"]`. Counts are int64, the others float64, NaN where a cell is empty."""

    def __init__(self, columns: dict[str, npt.NDArray[Any]]) -> None:
        self.columns = columns

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def rows(self) -> int:
        return max((len(column) for column in self.columns.values()), default=0)

    def row(self, i: int) -> dict[str, Any]:
        """Returns row i as Python's own numbers, by column."""
        return {name: column[i].item() for name, column in self.columns.items()}

    def to_pandas(self) -> Any:
        """Returns the table as a pandas.DataFrame."""
        import pandas

        return pandas.DataFrame(self.columns)

    def __repr__(self) -> str:
        return f"Table({self.rows} rows of {', '.join(self.columns)})"


@dataclass(frozen=True)
class Run:
    """One run. docs/metrics.md explains the columns."""

    directory: pathlib.Path
    settings: dict[str, str]  # config.yaml, values as they are written but for quotation marks
    progress: Table  # a row an iteration
    evaluations: Table  # a row an evaluation; no rows if there was none

    def policy(self, checkpoint: str | int = "best", seed: int | None = None) -> Policy:
        """Loads one of the run's policies: see dbqpg.load."""
        return load(self.directory, checkpoint, seed)


class Runs(list[Run]):
    """Several runs."""

    def to_pandas(self, table: str = "progress", settings: Sequence[str] = ()) -> Any:
        """Returns the runs' rows of "progress" or "evaluations" in one tidy pandas.DataFrame.

        Each row begins with its run: `run` (the directory), `env`, `algorithm`, `estimator`, `seed` and the settings that are named,
        as numbers or truth values where they are.
        """
        import pandas

        names = [*IDENTITY, *(name for name in settings if name not in IDENTITY)]
        frames = []
        for run in self:
            frame = getattr(run, table).to_pandas()
            for i, name in enumerate(names):
                frame.insert(i, name, _typed(run.settings.get(name, "")), allow_duplicates=True)
            frame.insert(0, "run", str(run.directory))
            frames.append(frame)
        return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame(columns=["run", *names])


def read_run(directory: str | os.PathLike[str]) -> Run:
    """Reads a run's directory, also while it is training."""
    place = pathlib.Path(directory)
    files = home(place)
    if not (files / "config.yaml").is_file():
        raise FileNotFoundError(f"{place} is no run: there is no {files / 'config.yaml'}")
    return Run(place, _settings(files / "config.yaml"), read_table(files / "progress.csv"), read_table(files / "evaluations.csv"))


def read_runs(directory: str | os.PathLike[str]) -> Runs:
    """Reads all runs below a directory, sorted by path."""
    found = {path.parent for path in pathlib.Path(directory).rglob("config.yaml")}
    runs = {place.parent if place.name.startswith("epoch-") else place for place in found}
    runs = {place.parent if place.name.startswith("id-") else place for place in runs}
    return Runs(read_run(place) for place in sorted(runs))


def read_table(path: str | os.PathLike[str], skip: int = 0) -> Table:
    """Reads a table of numbers in CSV with a header, from row skip on. A file that does not exist (yet) is an empty table."""
    try:
        text = pathlib.Path(path).read_text()
    except FileNotFoundError:
        return Table({})
    complete = text[: text.rfind("\n") + 1]  # the last line may be under way
    first, *lines = complete.splitlines() or [""]
    header, *rows = csv.reader([first, *lines[skip:]]) if first else [[]]
    if len(set(header)) != len(header):
        raise ValueError(f"{os.fspath(path)}: a column is there twice")
    for number, row in enumerate(rows, skip + 2):
        if len(row) != len(header):
            raise ValueError(f"{os.fspath(path)}:{number}: {len(row)} cells in {len(header)} columns")
    columns: dict[str, npt.NDArray[Any]] = {}
    for i, name in enumerate(header):
        cells = [row[i] for row in rows]
        try:
            if name in COUNTS:
                columns[name] = np.array([int(cell) for cell in cells], np.int64)
            else:
                columns[name] = np.array([float(cell or "nan") for cell in cells], np.float64)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{os.fspath(path)}: column {name}: {error}") from error
    return Table(columns)


def _settings(path: pathlib.Path) -> dict[str, str]:
    settings = {}
    for line in path.read_text().splitlines():
        name, colon, value = line.partition(":")
        if colon and not name.startswith(("#", " ")):
            settings[name] = unquoted(value.strip())
    return settings


def _typed(value: str) -> Any:
    """Returns a setting's value as a number or a truth value, if it is one."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def unquoted(value: str) -> str:
    try:
        return str(json.loads(value)) if value.startswith('"') else value
    except ValueError:  # an escape that JSON does not have
        return value

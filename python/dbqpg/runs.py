"""What runs leave behind: settings, the progress of training, evaluations."""

from __future__ import annotations

import csv
import json
import os
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dbqpg.policy import Policy, home, load

COUNTS = {"iteration", "steps", "episodes"}


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


def read_run(directory: str | os.PathLike[str]) -> Run:
    """Reads a run's directory, also while it is training."""
    place = pathlib.Path(directory)
    files = home(place)
    if not (files / "config.yaml").is_file():
        raise FileNotFoundError(f"{place} is no run: there is no {files / 'config.yaml'}")
    return Run(place, _settings(files / "config.yaml"), read_table(files / "progress.csv"), read_table(files / "evaluations.csv"))


def read_runs(directory: str | os.PathLike[str]) -> list[Run]:
    """Reads all runs below a directory, sorted by path."""
    found = {path.parent for path in pathlib.Path(directory).rglob("config.yaml")}
    runs = {place.parent if place.name.startswith("epoch-") else place for place in found}
    runs = {place.parent if place.name.startswith("id-") else place for place in runs}
    return [read_run(place) for place in sorted(runs)]


def read_table(path: str | os.PathLike[str]) -> Table:
    """Reads a table of numbers in CSV with a header. A file that does not exist (yet) is an empty table."""
    try:
        text = pathlib.Path(path).read_text()
    except FileNotFoundError:
        return Table({})
    complete = text[: text.rfind("\n") + 1]  # the last line may be under way
    header, *rows = csv.reader(complete.splitlines()) if complete else [[]]
    if len(set(header)) != len(header):
        raise ValueError(f"{os.fspath(path)}: a column is there twice")
    for number, row in enumerate(rows, 2):
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
            settings[name] = _unquoted(value.strip())
    return settings


def _unquoted(value: str) -> str:
    try:
        return str(json.loads(value)) if value.startswith('"') else value
    except ValueError:  # an escape that JSON does not have
        return value

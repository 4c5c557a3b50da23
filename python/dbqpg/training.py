"""Training from Python: the program learner, started and followed."""

from __future__ import annotations

import collections
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from dbqpg.command import program
from dbqpg.runs import Run, Table, read_run, read_table, unquoted


class TrainingError(RuntimeError):
    """The program failed. The text has its last messages."""


class Training:
    """A run that `train` started. A loop over it gets the rows of progress as they come, until the run is done.

    A row has the columns of progress.csv (docs/metrics.md) and, once there is an evaluation, those of the latest one
    (`mean_action_return`, ...). Leaving the loop early stops the program, which saves its state for `resume=True`.
    """

    def __init__(self, command: list[str], directory: pathlib.Path, quiet: bool) -> None:
        self.directory = directory
        self._quiet = quiet
        self._rows = read_table(directory / "progress.csv").rows  # that there were before
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True,  # Ctrl-C is for this process, which stops that one
        )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        messages = collections.deque[str](maxlen=10)
        assert self._process.stderr is not None
        try:
            for line in self._process.stderr:  # there is one at each iteration
                messages.append(line)
                if not self._quiet:
                    sys.stderr.write(line)
                yield from self._new()
            status = self._process.wait()
            yield from self._new()
        finally:
            self.stop()
        if status:
            raise TrainingError(f"learner ended with status {status}:\n{''.join(messages)}")

    def _new(self) -> Iterator[dict[str, Any]]:
        """Yields the rows that were added."""
        progress = read_table(self.directory / "progress.csv", self._rows)
        evaluations = read_table(self.directory / "evaluations.csv") if progress.rows else Table({})
        for i in range(progress.rows):
            row = progress.row(i)
            self._rows += 1
            known = [j for j in range(evaluations.rows) if evaluations["iteration"][j] <= row["iteration"] + 1]
            yield (evaluations.row(known[-1]) if known else {}) | row

    def stop(self) -> None:
        """Stops the program, after it has saved its state."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.communicate()

    @property
    def run(self) -> Run:
        """The run as it is now: see dbqpg.read_run."""
        return read_run(self.directory)


def train(env: str | None = None, *, quiet: bool = False, **settings: Any) -> Training:
    """Starts `learner --env ENV` with settings, its flags with _ for -, and follows it.

        for row in dbqpg.train("Hopper-v5", seed=3, steps=100_000):
            print(row["steps"], row["return_mean"])

    True is a flag without a value, and lists are joined by commas. quiet leaves out the program's messages. Settings that
    the program refuses are a ValueError, and a run that fails is a TrainingError.
    """
    flags = [] if env is None else [f"--env={env}"]
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        flags.append(flag if value is True else f"{flag}={_text(value)}")
    command = [str(program("learner")), *flags, "--log-level=info"]
    checked = subprocess.run([*command, "--dry-run"], capture_output=True, text=True)
    if checked.returncode:
        raise ValueError(checked.stderr.strip())
    (place,) = re.findall(r"^run_dir: (.*?) +# \w+$", checked.stdout, re.MULTILINE)
    return Training(command, pathlib.Path(unquoted(place)), quiet)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value).lower() if value is False else str(value)

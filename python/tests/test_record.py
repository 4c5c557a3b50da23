"""Films of policies."""

import json
import os
import pathlib
import subprocess

import pytest
from conftest import PROGRAMS, Run


def test_records_the_episode_that_is_evaluated(program: Run, tmp_path: pathlib.Path) -> None:
    run = tmp_path / "run"
    program(
        "learner", "--env", "Hopper-v4", "--iterations", 1, "--batch", 200, "--rank", 10, "--evaluate-every", 0,
        "--actors", 1, "--listen", "127.0.0.1:0", "--run-dir", run,
    )
    command = [str(PROGRAMS / "learner"), "record", str(run), "--out", str(tmp_path / "replay.mp4"), "--width", "64", "--height", "48"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        assert "cannot film" in done.stderr and "apt install" in done.stderr
        assert not list(tmp_path.glob("*.mp4*"))
        pytest.skip(done.stderr.strip())
    report = json.loads(program("learner", "evaluate", run, "--episodes", 2, "--json"))["mean_action"]
    assert f"return {report['returns'][0]:.2f}, {report['lengths'][0]} steps" in done.stdout
    assert (tmp_path / "replay.mp4").read_bytes()[4:8] == b"ftyp"
    assert [path.name for path in tmp_path.glob("*.mp4*")] == ["replay.mp4"]
    program("learner", "export", run, "--to", tmp_path / "folder", "--episodes", 0)
    assert (tmp_path / "folder/replay.mp4").stat().st_size > 1000
    without = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": ""})
    assert without.returncode == 1 and "apt install ffmpeg" in without.stderr
    refused = subprocess.run([*command[:4], str(tmp_path), *command[5:]], capture_output=True, text=True)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert not list(tmp_path.parent.glob(tmp_path.name + ".tmp"))

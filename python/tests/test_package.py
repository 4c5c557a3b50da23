"""The package as a whole: what it needs, and that it can be installed."""

import pathlib
import re
import subprocess
import sys

from conftest import ROOT, Run


def test_importing_needs_numpy_alone() -> None:
    code = """
import sys
before = set(sys.modules)
import dbqpg
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(names - set(sys.stdlib_module_names) - {"numpy", "dbqpg"}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_installs(tmp_path: pathlib.Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT / "python", check=True, capture_output=True,
    )
    (wheel,) = tmp_path.glob("dbqpg-*.whl")
    done = subprocess.run(
        [sys.executable, "-c", "import dbqpg, importlib.metadata as m; print(dbqpg.__file__, m.version('dbqpg'))"],
        env={"PYTHONPATH": str(wheel)}, cwd=tmp_path, check=True, capture_output=True, text=True,
    )
    assert str(wheel) in done.stdout and "0.1.0" in done.stdout


def test_same_engine_on_both_sides() -> None:
    def pins(path: pathlib.Path) -> dict[str, str]:
        return dict(re.findall(r"^([\w-]+)==([\w.]+)", path.read_text(), re.MULTILINE))

    go, python = pins(ROOT / "scripts/requirements.txt"), pins(ROOT / "python/requirements.txt")
    assert go["mujoco"] == python["mujoco"]
    assert go["gymnasium"] == python["gymnasium"]


def test_programs_run(program: Run) -> None:
    assert "learner --env" in program("learner", "--help")
    assert "actor --nats" in program("actor", "--help")

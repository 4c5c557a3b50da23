"""Runs as arrays."""

import pathlib
import shutil

import numpy as np
import pytest

import dbqpg


def test_reads_a_run(trained: pathlib.Path) -> None:
    run = dbqpg.read_run(trained)
    assert run.settings["env"] == "Swimmer-v2" and run.settings["batch"] == "500" and run.settings["nats"] == ""
    assert run.progress["iteration"].tolist() == [0, 1] and run.progress["steps"].dtype == np.int64
    assert run.progress.rows == 2 and np.isfinite(run.progress["return_mean"]).all()
    assert run.evaluations["iteration"].tolist() == [0, 1, 2]
    frame = run.progress.to_pandas()
    assert list(frame.columns) == list(run.progress) and len(frame) == 2
    assert run.policy().task == "Swimmer-v2"
    (found,) = dbqpg.read_runs(trained.parents[1])
    assert found.directory == trained


def test_reads_runs_of_workers(trained: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for epoch in (2, 10):
        shutil.copytree(trained, tmp_path / f"run/epoch-{epoch}")
    (tmp_path / "run/epoch-2/progress.csv").write_text("iteration\n0\n")
    (run,) = dbqpg.read_runs(tmp_path)
    assert run.directory == tmp_path / "run" and run.progress.rows == 2
    assert run.policy().task == "Swimmer-v2"
    shutil.copytree(trained, tmp_path / "run/id-10/epoch-11")  # a later run of the same name
    (tmp_path / "run/id-10/epoch-11/progress.csv").write_text("iteration\n0\n")
    (run,) = dbqpg.read_runs(tmp_path)
    assert run.directory == tmp_path / "run" and run.progress.rows == 1


def test_tables_under_way(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "progress.csv"
    assert dbqpg.read_table(path).rows == 0
    path.write_text("iteration,kl\n0,0.5\n1,\n2,0.")
    table = dbqpg.read_table(path)
    assert table["iteration"].tolist() == [0, 1]
    np.testing.assert_array_equal(table["kl"], [0.5, np.nan])


@pytest.mark.parametrize("text", ["iteration,kl\n0\n", "iteration\nx\n", "iteration\n1e3\n", "kl\nx\n", "kl,kl\n0,0\n", "iteration\n1" + 30 * "0" + "\n"])
def test_refuses_broken_tables(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "progress.csv").write_text(text)
    with pytest.raises(ValueError, match="progress.csv"):
        dbqpg.read_table(tmp_path / "progress.csv")


def test_names_what_is_no_run(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="is no run"):
        dbqpg.read_run(tmp_path)
    with pytest.raises(FileNotFoundError, match="neither a policy nor a run"):
        dbqpg.load(tmp_path)


def test_runs_as_one_frame(trained: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for seed in (1, 2):
        shutil.copytree(trained, tmp_path / f"run-{seed}")
        config = tmp_path / f"run-{seed}/config.yaml"
        config.write_text(config.read_text().replace("\nseed: 1\n", f"\nseed: {seed}\n"))
    frame = dbqpg.read_runs(tmp_path).to_pandas(settings=["gamma", "bootstrap"])
    assert list(frame.columns[:7]) == ["run", "env", "algorithm", "estimator", "seed", "gamma", "bootstrap"]
    assert frame["seed"].tolist() == [1, 1, 2, 2] and frame["seed"].dtype == np.int64 and frame["gamma"].dtype == np.float64
    assert frame["bootstrap"].dtype == bool and frame["iteration"].tolist() == [0, 1, 0, 1]
    evaluations = dbqpg.read_runs(tmp_path).to_pandas("evaluations")
    assert len(evaluations) == 6 and np.isfinite(evaluations["mean_action_return"]).all()
    assert list(dbqpg.Runs().to_pandas().columns) == ["run", "env", "algorithm", "estimator", "seed"]

"""The recipes of docs/python.md run as they are, but for shorter training."""

import pathlib
import re
from typing import Any

import pytest
from conftest import PROGRAMS, ROOT
from test_training import SHORT

import dbqpg

VERSIONS = {"mlflow": "mlflow-skinny==3.17.2", "wandb": "wandb==0.31.0"}  # too large (200 MB) for requirements.txt


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Any:
    """Returns a function that runs the recipe of a package, in an empty directory."""
    monkeypatch.setenv("DBQPG_PROGRAMS", str(PROGRAMS))
    monkeypatch.chdir(tmp_path)
    train = dbqpg.train
    monkeypatch.setattr(dbqpg, "train", lambda env, **settings: train(env, **{**settings, **SHORT, "iterations": 3}))

    def run(package: str) -> dict[str, Any]:
        pytest.importorskip(package, reason=f"{package} is not installed: pip install {VERSIONS.get(package, package)}")
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
        (block,) = (block for block in blocks if f"import {package}\n" in block)
        names: dict[str, Any] = {}
        exec(block.replace("n_trials=20", "n_trials=2"), names)
        return names

    return run


@pytest.mark.filterwarnings("default")  # of MLflow's dependencies
def test_mlflow(recipe: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/tracked.db")
    names = recipe("mlflow")
    (tracked,) = names["mlflow"].search_runs(output_format="list")
    progress = names["training"].run.progress
    assert tracked.data.metrics["return_mean"] == pytest.approx(progress["return_mean"][-1])
    assert "mean_action_return" in tracked.data.metrics and tracked.data.params["seed"] == "3"
    history = names["mlflow"].MlflowClient().get_metric_history(tracked.info.run_id, "return_mean")
    assert [point.step for point in history] == progress["steps"].tolist()


@pytest.mark.filterwarnings("default")  # of its dependencies
def test_wandb(recipe: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    names = recipe("wandb")
    (logged,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    rows = names["training"].run.progress.rows
    assert rows == 3 and logged.read_bytes().count(b"mean_action_return") >= rows
    assert b"gae_lambda" in logged.read_bytes()  # a setting


@pytest.mark.filterwarnings("default")  # of its dependencies
def test_optuna(recipe: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    optuna = pytest.importorskip("optuna", reason="optuna is not installed: make python fetches it")

    create = optuna.create_study  # with a pruner that stops the second trial after its first iteration
    pruner = optuna.pruners.ThresholdPruner(lower=0)

    def create_study(**settings: Any) -> Any:
        study = create(**settings, pruner=pruner)
        study.enqueue_trial({"max_kl": 0.01})
        return study

    monkeypatch.setattr(optuna, "create_study", create_study)
    monkeypatch.setattr(optuna.Trial, "report", report_negative_from_second_trial(optuna.Trial.report))
    study = recipe("optuna")["study"]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED"]
    assert list(study.trials[0].intermediate_values) == [0, 1, 2] and list(study.trials[1].intermediate_values) == [0]
    best = dbqpg.read_run(tmp_path / "runs/study/0")
    assert study.best_value == best.evaluations["mean_action_return"].max()
    assert dbqpg.read_run(tmp_path / "runs/study/1").progress.rows < 3


def report_negative_from_second_trial(report: Any) -> Any:
    """Makes values that ThresholdPruner prunes, whatever was learned."""
    return lambda trial, value, step: report(trial, value if trial.number == 0 else -1, step)

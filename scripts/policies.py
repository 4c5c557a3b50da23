"""Packs the best policy of each task among the runs of a directory, for hub:TASK (docs/python.md).

    scripts/policies.py LEARNER SOURCE DIR

The best is that of the highest evaluation during training; what the card gives is the return of 100 other episodes.
"""

import json
import pathlib
import re
import subprocess
import sys
import zipfile
from typing import Any

import numpy as np

import dbqpg

SEED = 20  # of the card's episodes; evaluations during training have another
CARD = """# {task}

The mean action's return is {mean:.1f}, with a standard error of {error:.1f}, in {episodes} episodes that training did not see
(`learner evaluate hub:{task} --seed {seed}`, on {engine}). Trained by dbqpg for {steps} steps:

    {command}

The policy is the best of {runs} runs by its evaluations: other seeds can do worse.
Its checkpoint, `checkpoints/best.safetensors`, has the SHA-256 {sha256}.
"""


def main() -> None:
    learner, source, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    best: dict[str, tuple[float, dbqpg.Run]] = {}
    runs: dict[str, int] = {}
    for run in dbqpg.read_runs(source):
        task = run.settings["env"]
        if run.settings["task"] or not run.evaluations.rows or not (run.directory / "checkpoints/best.safetensors").is_file():
            continue  # tasks of a file need their program, and workers' runs have other directories
        score = float(np.nanmax(run.evaluations["mean_action_return"]))
        runs[task] = runs.get(task, 0) + 1
        if task not in best or score > best[task][0]:
            best[task] = score, run
    if not best:
        sys.exit(f"policies: {source} has no runs with evaluations")
    out.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {}
    for task, (_, run) in sorted(best.items()):
        report = json.loads(ask(learner, "evaluate", str(run.directory), "--json", "--seed", str(SEED)))
        command = " ".join(["learner", *differences(learner, run.settings)])
        card = CARD.format(
            task=task, mean=report["mean_action"]["mean"], error=report["mean_action"]["standard_error"], seed=SEED, command=command,
            runs=runs[task], **{key: report[key] for key in ("episodes", "engine", "steps", "sha256")},
        )
        archive = out / f"{task}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in ("config.yaml", "progress.csv", "evaluations.csv", "checkpoints/best.safetensors"):
                packed.writestr(zipfile.ZipInfo(name), (run.directory / name).read_bytes(), zipfile.ZIP_DEFLATED)
            packed.writestr(zipfile.ZipInfo("README.md"), card, zipfile.ZIP_DEFLATED)
        index[task] = {
            "sha256": ask("sha256sum", str(archive)).split()[0], "return": report["mean_action"]["mean"],
            "standard_error": report["mean_action"]["standard_error"], "steps": report["steps"], "command": command,
        }
        print(f"{task}: {index[task]['return']:.1f} +/- {index[task]['standard_error']:.1f}, {archive.stat().st_size / 1000:.0f} kB")
    (out / "policies.json").write_text(json.dumps(index, indent=2) + "\n")


def ask(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def differences(learner: str, settings: dict[str, str]) -> list[str]:
    """Returns the flags of a run: what chooses its preset, then the settings that determine its result and differ from that."""
    flags = [f"--{name} {settings[name]}" for name in ("env", "algorithm", "estimator", "preset", "seed")]
    preset = ask(learner, *" ".join(flags).split(), "--dry-run").partition("# The machine")[0]
    for name, value in re.findall(r"^(\w+): (.*?) +# preset$", preset, re.MULTILINE):
        mine = settings.get(name, value.strip('"'))
        if mine != value.strip('"') and name not in ("evaluate_every", "keep_checkpoints"):
            flags.append(f"--{name.replace('_', '-')} {mine.strip('[]').replace(' ', '')}")
    return flags


if __name__ == "__main__":
    main()

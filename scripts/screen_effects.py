"""Prints the effects of the screens' settings as Markdown: python3 scripts/screen_effects.py docs/results/default/screens.csv

The first two screens are two-level fractional factorial designs (2^(8-4), resolution IV): each of eight settings has its
other value in half of the sixteen runs of a task and seed, so that every run tells of every setting. An effect is the
mean with the second value less the mean with the first, in standard deviations of the task's runs, averaged over tasks.
"""

import csv
import itertools
import math
import statistics
import sys

SETTINGS = ["initial_std", "std_rate", "segment", "value_epochs", "adaptive_kl", "fisher", "gae_lambda", "max_kl", "cg_iterations"]


def effects(rows: list[dict[str, str]], setting: str, first: str, second: str, column: str) -> list[float]:
    """Returns the effect of a setting on each task, by task."""
    result = []
    for _, of_task in itertools.groupby(rows, key=lambda row: row["task"]):
        runs = list(of_task)
        values = {level: [float(row[column]) for row in runs if row[setting] == level] for level in (first, second)}
        deviation = statistics.pstdev([float(row[column]) for row in runs])
        result.append((statistics.mean(values[second]) - statistics.mean(values[first])) / deviation)
    return result


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for screen in ("first", "second"):
        runs = sorted((row for row in rows if row["screen"] == screen), key=lambda row: row["task"])
        tasks = sorted({row["task"].removesuffix("-v5") for row in runs})
        print(f"\n{screen.capitalize()} screen, {len(runs)} runs; standard error {2 / math.sqrt(len(runs)):.2f}\n")
        print("| setting | from | to | final return | return over all iterations |", *(f" {task} |" for task in tasks), sep="")
        print("|---|---|---|---|---|" + "---|" * len(tasks))
        for setting in SETTINGS:
            levels = sorted({row[setting] for row in runs}, key=lambda level: (level == "yes" or level == "strict", level))
            if len(levels) != 2:
                continue
            final = effects(runs, setting, *levels, "mean_action_return")
            throughout = effects(runs, setting, *levels, "mean_return")
            print(f"| `{setting}` | {levels[0]} | {levels[1]} | {statistics.mean(final):+.2f} | {statistics.mean(throughout):+.2f} |",
                  *(f" {effect:+.1f} |" for effect in final), sep="")


main()

"""The numbers of a study, one row per evaluated policy, and what follows from them together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from math import isnan, nan
from pathlib import Path
from typing import Any

from rci.data import store
from rci.data.code import code_digest
from rci.data.errors import RciError
from rci.pipeline.results.rows import Row, read_rows
from rci.studies.paper.cells import Cell, StudyPaths
from rci.studies.paper.experiments import Scale

CONFIGURATION = (
    "experiment",
    "task",
    "dataset",
    "noise",
    "labelled",
    "updates",
    "learner",
    "method",
    "seed",
)
TEXTS = ("experiment", "task", "dataset", "noise", "method", "learner", "budget", "key")
COUNTS = (
    "labelled",
    "updates",
    "seed",
    "policy",
)
NUMBERS = (
    "mean_return",
    "selection_violation_rate",
    "selection_return",
)


def numbers_of(cell: Cell, scale: Scale, paths: StudyPaths, key: str, seconds: float | None) -> Row:
    """What a tested policy says; the row without the name of an experiment."""
    policy = store.read_manifest(paths.policy(cell, scale))
    info, made = policy["meta"]["info"], policy["provenance"]["versions"]
    scores, selection = (
        store.read(paths.scores(cell, scale, purpose), "scores") for purpose in ("evaluation", "selection")
    )
    return {
        **_identity(cell, scale, key),
        "episodes": len(scores),
        "violation_rate": scores.violation_rate,
        "mean_return": scores.mean_return,
        "mean_return_until_stop": scores.mean_return_until_stop,
        "selection_episodes": len(selection),
        "selection_violation_rate": selection.violation_rate,
        "selection_return": selection.mean_return,
        "predicted_cost": info.get("predicted_cost"),
        "predicted_return": info.get("predicted_return"),
        "multiplier": info.get("multiplier"),
        "seconds": seconds,
        "versions": ", ".join(f"{name} {number}" for name, number in sorted(made.items()))
        + f", code {code_digest()[:12]}",
    }


def failure_of(cell: Cell, scale: Scale, key: str, why: str) -> Row:
    """The row of a policy that could not be trained: why, and no numbers."""
    return {**_identity(cell, scale, key), "failed": why}


def _identity(cell: Cell, scale: Scale, key: str) -> Row:
    return {
        "task": cell.logs.task,
        "dataset": cell.logs.recipe,
        "noise": cell.logs.noise,
        "labelled": cell.logs.episodes(scale),
        "updates": cell.updates,
        "method": cell.method,
        "learner": cell.learner,
        "budget": cell.budget,
        "seed": cell.seed,
        "policy": cell.policy,
        "key": key,
    }


def read_study(file: Path) -> list[Row]:
    """The rows of a study, each whole enough to be told from the others and judged beside them."""
    rows = read_rows(file)
    seen = set[tuple[str, str]]()
    for number, row in enumerate(rows):
        numbers = COUNTS if "failed" in row else (*COUNTS, *NUMBERS)
        for names, kinds, said in ((TEXTS, str, "a text"), (numbers, (int, float), "a number")):
            for name in names:
                if not isinstance(row.get(name), kinds):
                    raise RciError(f"row {number} of {file} has no {name!r}, which should be {said}.")
        if (key := (row["experiment"], row["key"])) in seen:
            raise RciError(f"row {number} of {file} is there twice: {key[0]} {key[1]}.")
        seen.add(key)
    return rows


def judged_together(rows: Iterable[Row]) -> list[Row]:
    """The rows in order, with what a row alone cannot know: the normalised return, and whether it is the selected one.

    Of the policies of one method and seed, over all budgets, the one with the fewest violations on the selection
    episodes is selected, the higher return among equals. Returns are normalised over all policies of a
    task, as in the paper.
    """
    from rci.evaluation.stats import normalised_returns

    ordered = sorted(rows, key=_order)
    trained = [row for row in ordered if "failed" not in row]
    chosen = set[int]()
    for _, group in groupby(trained, key=lambda row: [row[name] for name in CONFIGURATION]):
        best = min(group, key=lambda row: (row["selection_violation_rate"], -row["selection_return"]))
        chosen.add(id(best))
    groups = defaultdict[str, list[Row]](list)
    for row in trained:
        groups[row["task"]].append(row)
    norms = {
        id(row): norm
        for group in groups.values()
        for row, norm in zip(group, normalised_returns([row["mean_return"] for row in group]).tolist())
    }
    return [
        {
            **row,
            "selected": id(row) in chosen,
            "return_norm": None if isnan(norms.get(id(row), nan)) else norms[id(row)],
        }
        for row in ordered
    ]


def _order(row: Row) -> list[Any]:
    budget = row["budget"]
    size = (0, float(budget)) if not budget[:1].isalpha() or budget == "inf" else (1, 0.0)
    return [*(row[name] for name in CONFIGURATION), *size, budget, row["policy"]]

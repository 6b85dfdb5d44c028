"""The study: for every set of logs, policies are estimated from the logs and then driven in the simulator.

A row is kept of what was found about each policy and of what came, so that a study goes on where it was left. What is
concluded from the findings is worked out when the rows are read, by the same function that users call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from rci.benchmarks.trust.policies import NAMES, SIZES, UPDATES, policies_of
from rci.benchmarks.trust.worlds import TASKS, logs_of, truth_of
from rci.data.risk.estimates import Interval, PolicyEstimate, Support
from rci.engines.engine import Report, reporting
from rci.learning import fit_behaviour
from rci.learning.behaviour import Config as BehaviourConfig
from rci.learning.behaviour import episodes_apart
from rci.learning.judging.combination import Opinion
from rci.learning.judging.estimate import Findings, concluded, gather, look_at
from rci.pipeline.results.rows import RESULTS, Row
from rci.studies.study import OnProgress, RowsFile, key_from, silent

VERSION = 2  # to be raised when something outside of the settings changes what is found
ROUNDS = (400, 150)  # episodes of the logs, each round with a seed of its own
FIRST_SEED = 100  # seeds below are for trying things out
TESTS = 400  # episodes in which a policy is driven
LEVEL = 0.9
BUDGETS = (0.05, 0.1, 0.2)
SETTINGS: dict[str, Any] = {"model_updates": 2_000, "hidden": 64, "updates": 1_500}
BEHAVIOUR: dict[str, Any] = {"updates": 1_500, "hidden": 64, "proposals": 0}


class Cell(NamedTuple):
    """One policy."""

    task: str
    episodes: int
    seed: int
    policy: str


def cells(first_seed: int = FIRST_SEED) -> list[Cell]:
    """All policies, those of one set of logs together; every round has all tasks."""
    return [
        Cell(task, episodes, first_seed + number, policy)
        for number, episodes in enumerate(ROUNDS)
        for task in TASKS
        for policy in NAMES
    ]


def key_of(cell: Cell) -> str:
    """What identifies a row."""
    return key_from([VERSION, *cell, TESTS, SETTINGS, BEHAVIOUR, SIZES, UPDATES])


def rows_file() -> Path:
    """Where the rows are kept, seen from the folder that one works in."""
    return RESULTS / "trust.json"


def run_study(
    policies: int | None = None,
    first_seed: int = FIRST_SEED,
    rows: Path | None = None,
    report: Report = lambda job, share, seconds: None,
    on_progress: OnProgress = silent,
) -> list[Row]:
    """Rows of the first so many policies, all if not given; those that have none yet are estimated and driven."""
    asked, file = cells(first_seed)[:policies], RowsFile(rows or rows_file())
    missing = [cell for cell in asked if not file.has(key_of(cell))]
    for (task, episodes, seed), group in groupby(missing, key=lambda cell: cell[:3]):
        with reporting(report, f"{task}, {episodes} episodes, seed {seed}") as progress:
            own = list(group)
            for number, row in enumerate(_rows_of(task, episodes, seed, own)):
                file.add(row)
                progress((number + 1) / len(own))
                left = sum(not file.has(key_of(cell)) for cell in asked)
                on_progress(len(asked) - left, len(asked), math.inf)
    return [file.by_key[key_of(cell)] for cell in asked]


def _rows_of(task: str, count: int, seed: int, group: Sequence[Cell]) -> Any:
    """The rows of policies from one set of logs, one after the other."""
    episodes, labels = logs_of(task, count, seed)
    behaviour = fit_behaviour(episodes, labels, seed, BehaviourConfig(**BEHAVIOUR))
    evidence = gather(episodes, labels, seed, behaviour=behaviour, **SETTINGS)
    makers = policies_of(episodes, labels, behaviour, seed)
    apart = episodes_apart(len(episodes), behaviour.info["split"])
    for cell in group:
        policy = makers[cell.policy]()
        findings = look_at(policy, evidence, apart, LEVEL)
        truth = truth_of(policy, task, TESTS, seed)
        yield {
            "key": key_of(cell),
            **cell._asdict(),
            **truth._asdict(),
            "tests": truth.episodes,
            "episodes": cell.episodes,
            **_as_table(findings),
        }


def _as_table(findings: Findings) -> Row:
    """JSON values."""
    return {
        "opinions": {name: [float(x) for x in each] for name, each in findings.opinions.items()},
        "support": [float(x) for x in findings.support],
        "estimated_return": [float(x) for x in findings.earned],
        "logged_return": [float(x) for x in findings.logged_earned],
        "logged_stops": findings.stopped,
        "bias": {name: float(each) for name, each in findings.bias.items()},
    }


def estimate_of(row: Row) -> PolicyEstimate:
    """What is concluded from the findings in a row."""
    findings = Findings(
        {name: Opinion(*each) for name, each in row["opinions"].items()},
        Support(*row["support"]),
        Interval(*row["estimated_return"]),
        Interval(*row["logged_return"]),
        row["logged_stops"],
        row["episodes"],
        row["bias"],
    )
    return concluded(findings, LEVEL)


def truth_in(row: Row) -> float:
    """The share of the test episodes that were stopped."""
    return float(row["stopped"]) / float(row["tests"])

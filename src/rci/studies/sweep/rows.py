"""The numbers of a sweep: one row per tested policy, and what follows from them over seeds."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rci.data import store
from rci.data.store import write_file
from rci.pipeline.folder import write_json
from rci.pipeline.results.rows import Row
from rci.studies.sweep.grid import plain, value_text
from rci.studies.sweep.plan import SweepPlan, Tested

if TYPE_CHECKING:
    from rci.reporting.sweep.groups import SweepGroup

SEED = "seed"  # the axis that groups are taken over
PAUSE = 1.0  # seconds between two writings of the rows: large sweeps have thousands


class SweepRows:
    """The rows that there are, in the order of the grid; the files are written whole as rows come.

    Rows of earlier runs are made again: their artefacts are there, and so it is seen that they are intact.
    """

    def __init__(self, plan: SweepPlan, out: Path) -> None:
        self.plan, self.out = plan, out
        self.by_key = dict[str, Row]()
        self.written = 0.0

    def has(self, key: str) -> bool:
        return key in self.by_key

    def add(self, row: Row) -> None:
        self.by_key[_key(row["grid"], row["key"])] = row
        if time.monotonic() - self.written > PAUSE:
            self.write()

    def key(self, policy: Tested) -> str:
        """What identifies the row of a policy: its point, and the job that tested it."""
        return _key(plain(self.plan.points[policy.point].values), _recipe(policy))

    def rows(self) -> list[Row]:
        keys = map(self.key, self.plan.policies)
        return [self.by_key[key] for key in keys if key in self.by_key]

    def missing(self) -> list[Tested]:
        """The policies without a row."""
        return [policy for policy in self.plan.policies if self.key(policy) not in self.by_key]

    def write(self) -> None:
        rows = self.rows()
        write_json(self.out / "sweep.json", rows)
        write_file(self.out / "sweep.csv", as_csv(rows).encode())
        self.written = time.monotonic()


def row_of(policy: Tested, plan: SweepPlan) -> Row:
    """What the test of a policy says. Nothing of it depends on when or where it was done."""
    from rci.evaluation.stats import clopper_pearson, t_half_width

    point, place = plan.points[policy.point], plan.jobs[policy.job].output
    scores, made = store.read(place, "scores"), store.read_manifest(place)["provenance"]
    low, high = clopper_pearson(int(scores.violated.sum()), len(scores))
    half = t_half_width(scores.returns) if len(scores) > 1 else None
    return {
        "grid": {name: plain(value) for name, value in point.values.items()},
        "task": point.config.task,
        "method": policy.entry.method,
        "budget": str(policy.entry.budget),
        "seed": policy.seed,
        "episodes": len(scores),
        "violation_rate": scores.violation_rate,
        "violation_low": low,
        "violation_high": high,
        "mean_return": scores.mean_return,
        "return_low": None if half is None else scores.mean_return - half,
        "return_high": None if half is None else scores.mean_return + half,
        "policy_hash": made["parents"]["policy"],
        "scores_hash": scores.hash,
        "key": _recipe(policy),
    }


def _key(grid: Row, recipe: str) -> str:
    return json.dumps([grid, recipe])


def _recipe(policy: Tested) -> str:
    return policy.job.rpartition("-")[2]


def as_csv(rows: Sequence[Row]) -> str:
    """The rows as a table for other programs; the columns of the grid begin with `grid.`."""
    flat = [
        {f"grid.{name}": value for name, value in row["grid"].items()}
        | {name: value for name, value in row.items() if name != "grid"}
        for row in rows
    ]
    text = io.StringIO()
    if flat:
        writer = csv.DictWriter(text, list(flat[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in flat)
    return text.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict | bool) else value


def groups_of(rows: Sequence[Row]) -> list[SweepGroup]:
    """Rows that differ in their seeds alone, taken together, in the order of the first of each.

    Groups of the very same policies are one: reward-only is the same for every redistributor, for instance.
    """
    from rci.reporting.sweep.groups import ANY

    groups = defaultdict[str, list[Row]](list)
    for row in rows:
        settings = {name: value for name, value in row["grid"].items() if name != SEED}
        groups[json.dumps([settings, row["task"], row["method"], row["budget"]])].append(row)
    alike = defaultdict[tuple[str, ...], list[list[Row]]](list)
    for group in groups.values():
        alike[group[0]["method"], *(row["key"] for row in group)].append(group)
    axes = [name for name in (rows[0]["grid"] if rows else ()) if name != SEED]
    every = {name: _texts(name, rows) for name in axes}

    def shared(name: str, some: Sequence[Row]) -> str:
        values = _texts(name, some)
        return ANY if len(values) == len(every[name]) > 1 else " or ".join(values)

    return [
        over_seeds(same[0], {name: shared(name, [some[0] for some in same]) for name in axes})
        for same in alike.values()
    ]


def _texts(name: str, rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(value_text(row["grid"][name]) for row in rows))


def over_seeds(rows: Sequence[Row], values: dict[str, str]) -> SweepGroup:
    """Means over seeds with 95% intervals. values: those of the grid that the rows share, as texts.

    Of several seeds: Student's, over seeds; that of violations is widened to that of all episodes together, because
    seeds that agree by chance would have none at all. Of one seed: that of its episodes.
    """
    from rci.evaluation.stats import clopper_pearson, t_half_width
    from rci.reporting.sweep.groups import SweepGroup

    first, rates = rows[0], [row["violation_rate"] for row in rows]
    rate, gain = sum(rates) / len(rows), sum(row["mean_return"] for row in rows) / len(rows)
    episodes = sum(row["episodes"] for row in rows)
    low, high = clopper_pearson(round(sum(row["violation_rate"] * row["episodes"] for row in rows)), episodes)
    returns = first["return_low"], first["return_high"]
    if len(rows) > 1:
        half = t_half_width(rates)
        low, high = max(0.0, min(low, rate - half)), min(1.0, max(high, rate + half))
        half = t_half_width([row["mean_return"] for row in rows])
        returns = gain - half, gain + half
    return SweepGroup(
        values=values,
        task=first["task"],
        method=first["method"],
        budget=first["budget"],
        seeds=len(rows),
        violation_rate=rate,
        violation_low=low,
        violation_high=high,
        mean_return=gain,
        return_low=returns[0],
        return_high=returns[1],
    )

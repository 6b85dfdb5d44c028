"""`rci redistribute --compare`: several redistributors on the same labels, over several seeds, side by side."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rci.data import store
from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episodes, Labels, Oracle, StepCosts, kept_rows
from rci.engines.engine import Engine, Report, reporting
from rci.pipeline.companions import oracle_of
from rci.pipeline.config import parse_flags
from rci.pipeline.folder import alone_in, prepare_folder, read_timings, run_timed, write_json
from rci.pipeline.jobs import Job

if TYPE_CHECKING:
    from rci.reporting.comparison.results import VariantResult

EXACT = "oracle"  # the redistributor that needs the exact risk
PLAIN = re.compile(r"[A-Za-z0-9._=-]{1,100}")  # what a folder may be called without further thought
QUALITY = ("held_out_accuracy", "held_out_calibration_error", "quality", "matched_pairs_accuracy")
MEANINGS = {
    "return_equivalent": "whether the step costs of every episode sum exactly to its episodic cost",
    "largest_gap": "largest distance between the sum of an episode's step costs and its episodic cost",
    "held_out_accuracy": "share of held-out episodes whose prediction at the end is on the right side",
    "held_out_calibration_error": "mean gap between predicted and realised cost over all held-out prefixes",
    "quality": "1 - squared error at the end / squared cost; below 0.8 RUDDER's authors distrust a model",
    "matched_pairs_accuracy": "how often a stopped episode looks worse than a safe one after as many steps",
    "mean_spread": "mean standard deviation of a step cost over the members of an ensemble",
    "epochs": "epochs that the first model was trained for",
    "seconds": "seconds of the whole job on one core, with compiling, when it was last run",
}

Row = dict[str, Any]  # plain numbers of one variant with one seed


@dataclass(frozen=True)
class Variant:
    """A redistributor with settings of its own, as the user wrote it: method[:key=value]..."""

    text: str
    method: str
    options: dict[str, Any]

    @property
    def folder(self) -> str:
        """The text as the name of a folder, different for different texts."""
        name = self.text.replace(":", "+")
        if PLAIN.fullmatch(self.text.replace(":", "")) and len(name) <= 100:
            return name
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:8]
        return f"{re.sub('[^A-Za-z0-9._=-]+', '-', self.text)[:80]}-{digest}"


def parse_variants(text: str, risk_known: bool = True) -> list[Variant]:
    """The variants of a comparison, such as "rudder,rudder:loss=prefix,uniform"; `all` is every redistributor.

    risk_known: whether the exact risk of the episodes is known, which `oracle` needs.
    """
    from rci.redistribution import REDISTRIBUTORS, parse_options

    names: list[str] = []
    for name in (part.strip() for part in split_outside(text, ",")):
        if not name:
            raise RciError(
                f"--compare takes redistributors separated by commas, such as rudder,uniform; got {text!r}."
            )
        names += [m for m in REDISTRIBUTORS if risk_known or m != EXACT] if name == "all" else [name]
    seen: dict[str, tuple[str, Any]] = {}
    variants = []
    for name in names:
        method, *flags = split_outside(name, ":")
        options = parse_flags(flags)
        settings = method, parse_options(method, options)
        if (twin := next((other for other in seen if seen[other] == settings), None)) is not None:
            raise RciError(f"--compare names the same variant twice: {twin!r} and {name!r}.")
        if method == EXACT and not risk_known:
            raise RciError(f"{EXACT!r} needs episodes whose exact risk is known, which these are not.")
        seen[name] = settings
        variants.append(Variant(name, method, options))
    return variants


def split_outside(text: str, mark: str) -> list[str]:
    """The parts of `text` between marks that stand outside of quotes and brackets."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == mark and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def plan(variants: Sequence[Variant], seeds: int, seed: int, logged: dict[str, Path], out: Path) -> list[Job]:
    """One job per variant and seed, in the order of the rows."""
    jobs = []
    for variant in variants:
        settings = {"method": variant.method, **variant.options}
        for n in range(seeds):
            name = f"{variant.folder}-seed{n}"
            jobs.append(Job(name, "redistribute", settings, seed + n, logged, out / "costs" / name))
    return jobs


def run_comparison(
    logged: dict[str, Path],
    compare: str,
    out: Path,
    seeds: int,
    seed: int,
    engine: Engine,
    report: Report,
    command: str = "",
) -> tuple[Path, list[Row], list[VariantResult]]:
    """Fit what is not fitted yet, and write the comparison: the path of its page, its rows, and those over seeds.

    logged: where the episodes and their labels are.
    """
    parse_variants(compare)  # mistakes in it need no data
    episodes, labels = store.read(logged["episodes"], "episodes"), store.read(logged["labels"], "labels")
    labels.check_parent(episodes)
    if not labels.stopped.any():
        raise RciError(
            "no episode was stopped, so there is no danger to point at and nothing to compare; label some that were."
        )
    _check_folder(out)
    risk = exact_risk(episodes, labels)
    variants = parse_variants(compare, risk is not None)
    prepare_folder(out)
    with alone_in(out):
        jobs = plan(variants, seeds, seed, logged, out)
        timings = read_timings(out)
        run_timed(jobs, out, engine, report, timings)
        # The page is cheap, so it is written anew each time and is not kept as an artefact.
        with reporting(report, "comparison"):
            oracle = _oracle_beside(logged["episodes"], episodes)
            return _write(out, variants, jobs, seeds, episodes, labels, oracle, risk, timings, command)


def exact_risk(episodes: Episodes, labels: Labels) -> Array | None:
    """The exact chance of a violation after each kept step, flat; None where it is not known."""
    from rci.tasks import TASKS

    task = TASKS.get(episodes.task)
    if task is None or task.risk is None:
        return None
    try:
        risk = task.risk(episodes)
    except RciError:  # recorded by a behaviour whose chances nobody knows
        return None
    return np.asarray(risk[kept_rows(episodes, labels)])


def comparison_row(
    variant: Variant,
    seed: int,
    costs: StepCosts,
    labels: Labels,
    risk: Array | None,
    window: int,
    seconds: float | None,
) -> Row:
    """What is said of one variant with one seed, in plain numbers."""
    from rci.evaluation.localisation import localise

    return {
        "variant": variant.text,
        "method": variant.method,
        "options": variant.options,
        "seed": seed,
        "return_equivalent": bool(costs.return_equivalent),
        "unit": costs.unit,
        "largest_gap": float(np.abs(costs.sums() - costs.episodic_cost).max()),
        "seconds": seconds,
        "epochs": costs.figure("epochs"),
        **localise(costs, labels, risk, window),
        **{name: costs.figure(name) for name in QUALITY},
        "mean_spread": costs.info.get("ensemble", {}).get("mean_spread"),
    }


def over_seeds(variant: Variant, rows: Sequence[Row]) -> VariantResult:
    """The rows of one variant together, with Student's interval over seeds."""
    from rci.evaluation.stats import t_half_width
    from rci.reporting.comparison.results import FIGURES, VariantResult

    own = [row for row in rows if row["variant"] == variant.text]
    values = {name: tuple(row[name] for row in own if row[name] is not None) for name in FIGURES}
    return VariantResult(
        variant=variant.text,
        method=variant.method,
        return_equivalent=all(row["return_equivalent"] for row in own),
        seeds=len(own),
        values=values,
        half_width={
            name: t_half_width(samples) if len(samples) > 1 else None for name, samples in values.items()
        },
    )


def results_of(facts: dict[str, Any]) -> list[VariantResult]:
    """The results of a comparison from its comparison.json, in the order of its rows."""
    first = {row["variant"]: row for row in reversed(facts["rows"])}
    names = dict.fromkeys(row["variant"] for row in facts["rows"])
    return [
        over_seeds(Variant(name, first[name]["method"], first[name]["options"]), facts["rows"])
        for name in names
    ]


def _write(
    out: Path,
    variants: Sequence[Variant],
    jobs: Sequence[Job],
    seeds: int,
    episodes: Episodes,
    labels: Labels,
    oracle: Oracle | None,
    risk: Array | None,
    timings: dict[str, float],
    command: str,
) -> tuple[Path, list[Row], list[VariantResult]]:
    """Write comparison.json and, from it, the table and the page."""
    from rci.evaluation.localisation import describe_columns, last_moments
    from rci.reporting.comparison.page import write_comparison
    from rci.reporting.comparison.results import ComparisonInput
    from rci.tasks import TASKS

    task = TASKS.get(episodes.task)
    step_seconds = None if task is None else task.step_seconds
    window = last_moments(step_seconds)
    rows: list[Row] = []
    first: dict[str, StepCosts] = {}
    for i, job in enumerate(jobs):
        variant = variants[i // seeds]
        costs = store.read(job.output, "costs")
        first.setdefault(variant.text, costs)
        rows.append(comparison_row(variant, job.seed, costs, labels, risk, window, timings.get(job.name)))
    versions = store.read_manifest(jobs[0].output)["provenance"]["versions"]
    facts = {
        "task": episodes.task,
        "episodes": len(episodes),
        "stopped": int(labels.stopped.sum()),
        "labels_hash": labels.hash,
        "command": command,
        "versions": versions,
        "rows": rows,
    }
    write_json(out / "comparison.json", facts)
    meanings = {**describe_columns(), **MEANINGS}
    if step_seconds is None:
        meanings["last_moments"] = f"share of the positive cost in the last {window} steps"
    results = results_of(facts)
    page = write_comparison(
        ComparisonInput(
            task=episodes.task,
            command=command,
            versions=versions,
            labels=labels,
            oracle=oracle,
            danger=0.0 if task is None else float(task.danger_distance),
            costs=first,
            results=tuple(results),
            meanings=meanings,
        ),
        out,
    )
    return page, rows, results


def _oracle_beside(path: Path, episodes: Episodes) -> Oracle | None:
    """The truth about the episodes, for the figure; None where there is none beside them."""
    place = oracle_of(path)
    if not place.exists():
        return None
    oracle = store.read(place, "oracle")
    oracle.check_parent(episodes)
    return oracle


def _check_folder(out: Path) -> None:
    """Refuse a folder in which something else keeps its files under the same names."""
    for name in ("config.json", "costs/manifest.json"):
        if (out / name).is_file():
            raise RciError(
                f"{out} holds something else already ({name}); a comparison needs a folder of its own."
            )

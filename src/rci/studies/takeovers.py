"""What is it worth to learn from what a person drove after taking over?

For every seed a machine is trained that is blind to danger, and a person who knows it; runs are recorded in which the
person takes over and hands back, and cut into segments. Policies are trained on the machine's part alone, with the
person's part as demonstrations, and by cloning, with and without the weights of Sirius. Each is tested at several
thresholds, on the task's true rule: takeovers are what the logs know of danger, and violations what is asked about.

What is compared is violations at the same return. Which threshold, or which mixture of two, has that return is decided
by one half of the test episodes, and the violations are counted in the other; then the halves change places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.data import store
from rci.data.errors import RciError
from rci.engines.engine import LOCAL, Engine, Report
from rci.pipeline.companions import takeovers_of
from rci.pipeline.folder import alone_in, prepare_folder
from rci.pipeline.jobs import Job
from rci.pipeline.results.rows import RESULTS, Row
from rci.studies.study import OnProgress, RowsFile, Study, complete, key_from, silent

VERSION = 1  # to be raised when something outside of the settings changes what policies are
TASK = "highway"
SEEDS, FIRST_SEED, EPISODES = 5, 0, 500
RUNGS = ("T3", "T5", "T7", "inf")  # of the thresholds that a training comes with; see `Policy.at_rung`
LAST_RUNG = 9  # no threshold
ROAD: dict[str, Any] = {
    "hidden": [128, 128],
    "initial_deviation": 0.3,
    "discount": 0.97,
    "learning_rate": 1e-3,
}  # of `rci reference`
KEPT_SHARES = (0.95, 0.9)  # of the machine's return, at which violations are compared


@dataclass(frozen=True)
class Variant:
    """One way to learn from the logs."""

    learn: dict[str, Any]
    shown: bool  # whether what the person drove is learned from
    behaviour: dict[str, Any] | None = None  # settings of the behaviour model; None: it needs none
    rungs: tuple[str, ...] = RUNGS


@dataclass(frozen=True)
class Scale:
    """How much is recorded and trained."""

    runs: int = 1000
    machine: dict[str, Any] = field(default_factory=lambda: {**ROAD, "total_steps": 400_000})
    person: dict[str, Any] = field(
        default_factory=lambda: {**ROAD, "total_steps": 600_000, "initial_deviation": 0.1}
    )
    price: float = 10.0  # of a violation, to the person
    watch: dict[str, Any] = field(default_factory=dict)
    updates: int = 5000  # of a learner; the behaviour model has half as many


FEASIBLE = {"method": "feasible", "model_updates": 0, "test_candidates": 32, "cost_discount": 0.9}
SIRIUS = {"demonstration_weight": 10.0, "window": 15, "window_weight": 0.1}
DRAWS = {"proposals": 0, "rows": 0}  # observations seen as a whole: a quarter of the time
MACHINE_ONLY, WITH_PERSON = "feasible, machine only", "feasible, with the person"
VARIANTS = {  # in the order in which they are done: cloning takes seconds
    "cloning, machine only": Variant({"method": "bc"}, False, rungs=("inf",)),
    "cloning, with the person": Variant({"method": "bc"}, True, rungs=("inf",)),
    "cloning, Sirius": Variant({"method": "bc", **SIRIUS}, True, rungs=("inf",)),
    MACHINE_ONLY: Variant(FEASIBLE, False, DRAWS),
    WITH_PERSON: Variant(FEASIBLE, True, DRAWS),
}
PAIRS = (  # without and with what the person drove
    ("cloning", "cloning, machine only", "cloning, with the person"),
    ("cloning with the weights of Sirius", "cloning, machine only", "cloning, Sirius"),
    ("feasible", MACHINE_ONLY, WITH_PERSON),
)
DRIVERS = ("machine", "person")  # tested as they are, without noise


class Cell(NamedTuple):
    """One policy, or a driver."""

    seed: int
    variant: str
    rung: str

    @property
    def name(self) -> str:
        return f"{self.variant}-{self.rung}".replace(", ", "-").replace(" ", "-")


def cells(seeds: Sequence[int]) -> list[Cell]:
    """Every driver and policy, seed after seed."""
    each = [(name, "inf") for name in DRIVERS]
    each += [(name, rung) for name, variant in VARIANTS.items() for rung in variant.rungs]
    return [Cell(seed, *which) for seed in seeds for which in each]


def key_of(cell: Cell, scale: Scale, episodes: int) -> str:
    """What identifies the row of a policy."""
    how = None if cell.variant in DRIVERS else asdict(VARIANTS[cell.variant])
    return key_from([VERSION, TASK, asdict(scale), how, cell, episodes])


def jobs_of(seed: int, wanted: Sequence[Cell], scale: Scale, episodes: int, out: Path) -> Iterator[Job]:
    """Everything from the drivers to the tests of one seed."""
    at = out / f"seed{seed}"

    def job(name: str, stage: str, settings: dict[str, Any], **inputs: str) -> Job:
        paths = {kind: at / place for kind, place in inputs.items()}
        needs = tuple(f"{place}-seed{seed}" for place in inputs.values())
        return Job(f"{name}-seed{seed}", stage, settings, seed, paths, at / name, needs)

    world = {"task_name": TASK, "world": {}}
    yield job("machine", "informed", {**world, "price": 0.0, "ppo": scale.machine})
    yield job("person", "informed", {**world, "price": scale.price, "ppo": scale.person}, blind="machine")
    watched = {"task_name": TASK, "episodes": scale.runs, "watch": scale.watch}
    yield job("runs", "collect-takeovers", watched, machine="machine", person="person")
    for part in ("machine", "labels", "human"):
        inputs = {"episodes": at / "runs", "takeovers": takeovers_of(at / "runs")}
        name = f"cut-{part}"
        yield Job(f"{name}-seed{seed}", "cut", {"part": part}, seed, inputs, at / name, (f"runs-seed{seed}",))
    logged = {"episodes": "cut-machine", "labels": "cut-labels"}
    yield job("costs", "redistribute", {"method": "sparse"}, **logged)
    tests = {"episodes": episodes}
    for name in dict.fromkeys(cell.variant for cell in wanted):
        rungs = [cell for cell in wanted if cell.variant == name]
        if name in DRIVERS:
            yield job(f"scores-{rungs[0].name}", "drive", {**world, **tests}, informed=name)
            continue
        yield from _training(job, name, logged, scale)
        for cell in rungs:
            policy = f"policy-{cell.name}"
            rung = LAST_RUNG if cell.rung == "inf" else int(cell.rung[1:])
            if VARIANTS[name].rungs == RUNGS:
                yield job(policy, "limit", {"rung": rung}, policy=_folder(name))
            else:
                policy = _folder(name)
            yield job(f"scores-{cell.name}", "evaluate", {"task": TASK, **tests}, policy=policy)


def _training(job: Any, name: str, logged: Mapping[str, str], scale: Scale) -> Iterator[Job]:
    """The behaviour model, if any, and the policy."""
    variant = VARIANTS[name]
    shown = {**logged, "human": "cut-human"} if variant.shown else dict(logged)
    inputs = {**shown, "costs": "costs"}
    if variant.behaviour is not None:
        model = f"behaviour-{'human' if variant.shown else 'machine'}"
        yield job(model, "behaviour", {"updates": scale.updates // 2, **variant.behaviour}, **shown)
        inputs["behaviour"] = model
    yield job(_folder(name), "learn", {**variant.learn, "updates": scale.updates, "budget": "inf"}, **inputs)


def _folder(variant: str) -> str:
    return f"policy-{variant}".replace(", ", "-").replace(" ", "-")


def study_of(asked: Sequence[Cell], scale: Scale, episodes: int, folder: Path) -> Study[Cell]:
    """The policies of these cells, seed after seed."""

    def plan(missing: Sequence[Cell]) -> Iterator[Job]:
        for slow in (False, True):
            group = [cell for cell in missing if (cell.variant in (MACHINE_ONLY, WITH_PERSON)) == slow]
            for seed in sorted({cell.seed for cell in group}):
                seed_cells = [cell for cell in group if cell.seed == seed]
                yield from jobs_of(seed, seed_cells, scale, episodes, folder)

    def training(cell: Cell) -> str:
        return f"{cell.variant if cell.variant in DRIVERS else _folder(cell.variant)}-seed{cell.seed}"

    return Study(
        asked,
        lambda cell: key_of(cell, scale, episodes),
        plan,
        training,
        lambda cell: [f"scores-{cell.name}-seed{cell.seed}"],
        lambda cell, seconds: row_of(cell, scale, folder / f"seed{cell.seed}", episodes),
    )


def row_of(cell: Cell, scale: Scale, at: Path, episodes: int) -> Row:
    """What the tests of a policy say, and what its logs were like."""
    from rci.evaluation.stats import clopper_pearson

    scores = store.read(at / f"scores-{cell.name}", "scores")
    halves = [slice(None, None, 2), slice(1, None, 2)]
    takeovers = store.read(takeovers_of(at / "runs"), "takeovers")
    violations = int(scores.violated.sum())
    low, high = clopper_pearson(violations, len(scores))
    return {
        "key": key_of(cell, scale, episodes),
        "task": TASK,
        "seed": cell.seed,
        "variant": cell.variant,
        "rung": cell.rung,
        "episodes": len(scores),
        "violations": violations,
        "violation_rate": scores.violation_rate,
        "violation_low": low,
        "violation_high": high,
        "mean_return": scores.mean_return,
        "mean_return_until_stop": scores.mean_return_until_stop,
        "violation_rate_of_halves": [float(scores.violated[half].mean()) for half in halves],
        "return_of_halves": [float(scores.returns[half].mean()) for half in halves],
        "runs": scale.runs,
        "takeovers": len(takeovers),
        "person_share": float(takeovers.flags().mean()),
    }


def run_study(
    seeds: int = SEEDS,
    episodes: int = EPISODES,
    out: Path | None = None,
    rows: Path | None = None,
    engine: Engine = LOCAL,
    report: Report = lambda job, share, seconds: None,
    on_progress: OnProgress = silent,
    first_seed: int = FIRST_SEED,
    scale: Scale | None = None,
) -> list[Row]:
    """Rows of all policies that were asked for; those that have none yet are trained and tested."""
    folder = out or Path("runs") / "takeovers"
    asked = cells(range(first_seed, first_seed + seeds))
    study = study_of(asked, scale or Scale(), episodes, folder)
    file = RowsFile(rows or RESULTS / "takeovers.json")
    prepare_folder(folder)
    with alone_in(folder):
        complete(study, file, folder, engine, report, on_progress)
    return file.of(study)


def at_return(rows: Sequence[Row], variant: str, share: float) -> dict[int, float]:
    """By seed the violation rate of a variant where it earns this share of what the machine does; nan = never does.

    Seeds without a row of the variant are left out.
    """
    from rci.evaluation.frontier import points, violation_at_return

    rates = {}
    for seed in dict.fromkeys(row["seed"] for row in rows):
        group = [row for row in rows if row["seed"] == seed]
        machine = next((row for row in group if row["variant"] == "machine"), None)
        if machine is None:
            raise RciError(f"there is no row of the machine of seed {seed}, whose return is the measure.")
        policies = [row for row in group if row["variant"] == variant]
        if not policies:
            continue
        first, second = (
            points(
                [row["return_of_halves"][half] for row in policies],
                [row["violation_rate_of_halves"][half] for row in policies],
            )
            for half in (0, 1)
        )
        target = share * machine["mean_return"]
        both = [
            violation_at_return(*pair, target).violation_rate for pair in ((first, second), (second, first))
        ]
        rates[seed] = float(np.mean(both))
    return rates


def takeover_table(rows: Sequence[Row]) -> str:
    """One line for each variant and threshold, over the seeds."""
    from rci.reporting.markdown import table

    heads = ("policies", "threshold", "seeds", "violations", "from to", "return", "until the first violation")
    lines = []
    for variant, rung in dict.fromkeys((row["variant"], row["rung"]) for row in rows):
        group = [row for row in rows if (row["variant"], row["rung"]) == (variant, rung)]
        rates = [row["violation_rate"] for row in group]
        lines.append(
            (
                variant,
                rung if variant not in DRIVERS else "",
                str(len(group)),
                f"{np.mean(rates):.1%}",
                f"{min(rates):.1%} to {max(rates):.1%}",
                f"{np.mean([row['mean_return'] for row in group]):.1f}",
                f"{np.mean([row['mean_return_until_stop'] for row in group]):.1f}",
            )
        )
    return table(heads, lines)


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Violations at the same return, with 95% intervals over seeds, one sentence for each variant and return."""
    from rci.evaluation.stats import t_half_width

    sentences = []
    variants = [name for name in VARIANTS if any(row["variant"] == name for row in rows)]
    for share in KEPT_SHARES:
        rates = {name: at_return(rows, name, share) for name in variants}
        for name, by_seed in rates.items():
            sentences.append(
                f"at {share:.0%} of the machine's return, {name}: {_interval(list(by_seed.values()))}."
            )
        for learner, without, shown in PAIRS:
            both = [rates.get(without, {}), rates.get(shown, {})]
            gaps = [both[0][seed] - both[1][seed] for seed in both[0] if seed in both[1]]
            gaps = [gap for gap in gaps if not np.isnan(gap)]
            if len(gaps) > 1:
                sentences.append(
                    f"{learner}: the person's part takes {np.mean(gaps):.1%} ± {t_half_width(gaps):.1%} off the "
                    f"violations, in {len(gaps)} seeds that earn as much with and without it."
                )
    return sentences


def _interval(rates: Sequence[float]) -> str:
    """The mean with its interval over seeds, and how many seeds reach the return at all."""
    from rci.evaluation.stats import t_half_width

    some = [rate for rate in rates if not np.isnan(rate)]
    if not some:
        return "no seed earns as much"
    half = f" ± {t_half_width(some):.1%}" if len(some) > 1 else ""
    missing = "" if len(some) == len(rates) else f" ({len(some)} of {len(rates)} seeds earn as much)"
    return f"{np.mean(some):.1%}{half} violations{missing}"

"""What was promised of the experiments, held against their numbers: met, missed, or not yet measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rci.reporting.paper_contents import (
    MATCHED_SHARE,
    Bar,
    Estimate,
    Experiment,
    Frontier,
    Outcome,
    Reached,
    WelchTest,
    matched_at,
)
from rci.reporting.summary import number, percent
from rci.run.paper.policy_rows import REPORTED_LOGS, REWARD_ONLY

METHOD = "rci"
MET, MISSED, OPEN = "met", "missed", "not yet measured"
TASKS = ("highway", "fetch-reach")
BASELINES = ("sparse", "hazard", REWARD_ONLY)
MATCHED_RIVALS = ("sparse", "hazard", "uniform", "traces")
COMPOSITIONS = ("ppo", "random", "mixed")
NOISES = ("noisy", "adversarial")
FEWER = 5  # times: how many violations of a baseline there should be for one of ours
SIGNIFICANT = 0.05
ENOUGH = 5  # seeds from which on it counts that no difference was found: those of the main figures
Measured = TypeVar("Measured", Outcome, Frontier)
Claim = tuple[str, str]  # a verdict and the numbers behind it


def check_bars(experiments: Sequence[Experiment]) -> tuple[Bar, ...]:
    """Every promise, in a fixed order, by the logs that are reported on alone."""
    by_name = {experiment.name: experiment for experiment in experiments}

    def outcomes(name: str) -> list[Outcome]:
        return _reported(by_name[name].outcomes) if name in by_name else []

    bars = []
    for task in TASKS:
        own = in_one_setting(
            [o for o in outcomes(task) if o.setting.dataset == "mixed" and o.setting.noise == "clean"]
        )
        bars += [
            _bar(
                f"{task}: a fifth of the violations",
                f"{METHOD} violates at most one fifth as often as each of {', '.join(BASELINES)}",
                [_fewer(own, rival) for rival in BASELINES],
            ),
            _bar(
                f"{task}: full return",
                f"the return of {METHOD} is not significantly below that of {REWARD_ONLY} (p > {SIGNIFICANT})",
                [_return_kept(own, lambda o: o.against)],
            ),
            _bar(
                f"{task}: return until the first violation",
                "the same for the return until the first violation",
                [_return_kept(own, lambda o: o.against_until_stop)],
            ),
        ]
    bars += [
        _bar(
            "composition",
            f"{METHOD} violates less often than sparse and hazard on {', '.join(COMPOSITIONS)} data",
            [
                _better(outcomes("composition"), name, lambda o: o.setting.dataset, rival)
                for name in COMPOSITIONS
                for rival in ("sparse", "hazard")
            ],
        ),
        _bar(
            "label noise",
            f"{METHOD} violates less often than sparse and hazard under {' and '.join(NOISES)} labels",
            [
                _better(outcomes("label-noise"), name, lambda o: o.setting.noise, rival)
                for name in NOISES
                for rival in ("sparse", "hazard")
            ],
        ),
    ]
    for task in TASKS:
        known = _reported(by_name["frontier"].frontiers) if "frontier" in by_name else []
        frontiers = in_one_setting([f for f in known if f.setting.task == task])
        bars.append(
            _bar(
                f"{task}: fewer violations at the same return",
                f"{100 * MATCHED_SHARE:g}% of the way to the return of {REWARD_ONLY}, {METHOD} violates less often "
                f"than each of {', '.join(MATCHED_RIVALS)}, and the intervals over seeds do not overlap",
                [_lower_at_matched_return(frontiers, rival) for rival in MATCHED_RIVALS],
            )
        )
    return tuple(bars)


def verdict(claims: Iterable[Claim]) -> str:
    """Missed as soon as one claim is; met only when all are."""
    told = {word for word, _ in claims}
    return MISSED if MISSED in told else OPEN if OPEN in told or not told else MET


def in_one_setting(found: Sequence[Measured]) -> dict[str, Measured]:
    """What was found of each method in one and the same setting: of those with rci the last, with the most updates."""
    own = [one.setting for one in found if one.method == METHOD]
    return {one.method: one for one in found if one.setting == own[-1]} if own else {}


def _reported(found: Sequence[Measured]) -> list[Measured]:
    return [one for one in found if one.setting.logs_seed == REPORTED_LOGS]


def interval_of(value: Estimate) -> tuple[float, float] | None:
    """Student's interval of a violation rate over seeds; None for one seed."""
    if value.half_width is None:
        return None
    return max(0.0, value.mean - value.half_width), min(1.0, value.mean + value.half_width)


def _bar(name: str, promise: str, claims: Sequence[Claim]) -> Bar:
    return Bar(name, promise, verdict(claims), "; ".join(text for _, text in claims))


def _fewer(outcomes: dict[str, Outcome], rival: str) -> Claim:
    if METHOD not in outcomes or rival not in outcomes:
        return OPEN, f"{rival}: {OPEN}"
    own, other = outcomes[METHOD], outcomes[rival]
    ratio = next(ratio for ratio in own.ratios if ratio.to == rival)
    kept = FEWER * own.violation.mean <= other.violation.mean
    return MET if kept else MISSED, (
        f"{percent(own.violation.mean)} against {percent(other.violation.mean)} of {rival}, "
        f"ratio {number(ratio.ratio)} ({number(ratio.low)} to {number(ratio.high)}), {_seeds(own.seeds, other.seeds)}"
    )


def _return_kept(outcomes: dict[str, Outcome], test_of: Callable[[Outcome], WelchTest | None]) -> Claim:
    own = outcomes.get(METHOD)
    test = None if own is None else test_of(own)
    if own is None or test is None:
        return OPEN, OPEN
    seeds = _seeds(own.seeds, outcomes[REWARD_ONLY].seeds)
    told = f"difference {number(test.difference)}, p = {number(test.p)}, {seeds}"
    fewest = min(len(own.seeds), len(outcomes[REWARD_ONLY].seeds))
    if fewest < 2:
        return OPEN, f"{told}: a test needs two seeds of each"
    if test.difference >= 0.0:
        return MET, told
    # Without any spread p is not defined; a difference is then a difference.
    if test.p is None or test.p <= SIGNIFICANT:
        return MISSED, told
    if fewest < ENOUGH:
        return OPEN, f"{told}: with fewer than {ENOUGH} seeds a test that finds nothing says little"
    return MET, told


def _better(outcomes: Sequence[Outcome], name: str, kind_of: Callable[[Outcome], str], rival: str) -> Claim:
    found = in_one_setting([o for o in outcomes if kind_of(o) == name])
    if METHOD not in found or rival not in found:
        return OPEN, f"{name}, {rival}: {OPEN}"
    own, other = found[METHOD], found[rival]
    kept = own.violation.mean < other.violation.mean
    return MET if kept else MISSED, (
        f"{name}: {percent(own.violation.mean)} against {percent(other.violation.mean)} of {rival}, "
        f"{_seeds(own.seeds, other.seeds)}"
    )


def _lower_at_matched_return(frontiers: dict[str, Frontier], rival: str) -> Claim:
    if METHOD not in frontiers or rival not in frontiers:
        return OPEN, f"{rival}: {OPEN}"
    ours, theirs = matched_at(frontiers[METHOD], MATCHED_SHARE), matched_at(frontiers[rival], MATCHED_SHARE)
    if ours is None or theirs is None:
        who = METHOD if ours is None else rival
        return OPEN, f"{rival}: {OPEN}, as {who} does not reach the return"
    told = (
        f"{_with_interval(ours)} against {_with_interval(theirs)} of {rival} at a return of {number(ours.target)}, "
        f"{_seeds(ours.violation.values, theirs.violation.values)}"
    )
    short = [
        f"{name} reaches it with {found.seeds} of {len(frontiers[name].seeds)} seeds"
        for name, found in ((METHOD, ours), (rival, theirs))
        if found.seeds < len(frontiers[name].seeds)
    ]
    if short:  # the seeds that fail may be the very ones that would violate
        return OPEN, f"{told}: {OPEN}, as {' and '.join(short)}"
    first, second = interval_of(ours.violation), interval_of(theirs.violation)
    if first is None or second is None:
        return OPEN, f"{told}: one seed has no interval"
    return MET if first[1] < second[0] else MISSED, told


def _with_interval(found: Reached) -> str:
    ends = interval_of(found.violation)
    return percent(found.violation.mean) + (
        "" if ends is None else f" ({100 * ends[0]:.1f}–{percent(ends[1])})"
    )


def _seeds(own: Sequence[float], others: Sequence[float]) -> str:
    count = str(len(own)) if len(own) == len(others) else f"{len(own)} and {len(others)}"
    return f"{count} seed{'' if count == '1' else 's'}"

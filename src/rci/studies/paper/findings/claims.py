"""What the paper claims, held against the rows: claimed, measured, verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from rci.reporting.numbers import number, percent
from rci.reporting.paper.contents import (
    MATCHED_SHARE,
    Claim,
    Estimate,
    Experiment,
    Frontier,
    Outcome,
    Reached,
    matched_at,
)
from rci.studies.paper.experiments import OURS, REWARD_ONLY
from rci.studies.paper.findings.outcomes import ratio_of_counts, tested

METHOD = "rudder"  # the paper's
DEFAULT = "sparse"  # labels as they are, which `feasible` learns from unless it is set otherwise
HOLDS, FAILS, OPEN = "holds", "does not hold", "not yet measured"
# Where the paper's comparison is made: the task, how to call it, and the experiment.
READINGS = (
    ("highway", "Highway", "highway"),
    ("highway-open", "Highway, leaving the road costs nothing", "readings"),
    ("highway-disc", "Highway, a disc of 20 m", "readings"),
    ("fetch-reach", "Fetch arm", "fetch-reach"),
)
# Where the default learner is compared: its experiment, that of the paper's system, how to call the task, and whether
# the return until the first violation says anything: where every step costs, who is stopped early seems to earn more.
BEST = (
    ("best-learner", "highway", "Highway", True),
    ("best-learner-arm", "fetch-reach", "Fetch arm", False),
)
BASELINES = ("sparse", "hazard", REWARD_ONLY)
COMPOSITIONS = ("ppo", "random", "mixed")
NOISES = ("noisy", "adversarial")
FEWER = 5  # times: how many violations of a baseline there should be for one of ours
SIGNIFICANT = 0.05
FEWEST = 2  # seeds of each from which on anything counts: one is a hint
ENOUGH = 5  # seeds from which on it counts that no difference was found: those of the main figures
RISING = 0.5  # rank correlation of budget and violation rate from which on a trade-off is smooth
LITTLE = 0.25  # share of reward-only's return under which a policy is safe because it does little
Measured = TypeVar("Measured", Outcome, Frontier)
Finding = tuple[str, str]  # a verdict and the numbers behind it


def check_claims(
    experiments: Sequence[Experiment], with_budget: Mapping[str, Outcome] | None = None
) -> tuple[Claim, ...]:
    """Every claim of the paper, and what its successor has to show, in a fixed order.

    with_budget: what the default learner does at a budget, by task, on the recordings of the study.
    """
    by_name = {experiment.name: experiment for experiment in experiments}

    def outcomes(name: str) -> list[Outcome]:
        return list(by_name[name].outcomes) if name in by_name else []

    def frontiers(name: str) -> list[Frontier]:
        return list(by_name[name].frontiers) if name in by_name else []

    claims = []
    for task, title, name in READINGS:
        by_method = in_one_setting([o for o in outcomes(name) if o.setting.task == task])
        claims += [
            _claim(
                f"{title}: about a fifth of the violations",
                "violations are reduced roughly fivefold",
                [_fewer(by_method.get(METHOD), by_method.get(rival), rival) for rival in BASELINES],
            ),
            _claim(
                f"{title}: no loss of return",
                f"no statistically significant loss of return against {REWARD_ONLY} (p > {SIGNIFICANT})",
                [
                    _return_kept(by_method.get(METHOD), by_method.get(REWARD_ONLY), lambda o: o.mean_return),
                    _does_something(by_method),
                ],
            ),
        ]
    return (
        *claims,
        _claim(
            "Three compositions of the data",
            "the reduction holds for PPO, random and mixed data",
            [
                _better(outcomes("composition"), kind, lambda o: o.setting.dataset, rival)
                for kind in COMPOSITIONS
                for rival in ("sparse", "hazard")
            ],
        ),
        _claim(
            "Noisy and adversarial labels",
            "Sparse and Hazard respond more sharply to wrong labels",
            [
                _better(outcomes("label-noise"), kind, lambda o: o.setting.noise, rival)
                for kind in NOISES
                for rival in ("sparse", "hazard")
            ],
        ),
        _claim(
            "Smooth degradation",
            "a looser budget gives more return and more violations, step by step",
            [_rises(frontiers(name), task) for task, _, name in READINGS if name == task],
        ),
        *(
            _claim(
                f"{title}: redistribution under the best learner",
                f"{100 * MATCHED_SHARE:g}% of the way to the return of {REWARD_ONLY}, `{OURS}` violates less with "
                "redistributed costs than with the labels as they are",
                _pays(frontiers(name)),
            )
            for name, _, title, _ in BEST
        ),
        *(
            one
            for name, papers, title, until_stop in BEST
            for who, own in _defaults(title, outcomes(name), (with_budget or {}).get(papers))
            for one in _default_claims(who, own, in_one_setting(outcomes(papers), REWARD_ONLY), until_stop)
        ),
    )


def verdict(findings: Iterable[Finding]) -> str:
    """A claim fails as soon as one finding does; it holds only when all do."""
    words = {word for word, _ in findings}
    return FAILS if FAILS in words else OPEN if OPEN in words or not words else HOLDS


def in_one_setting(measured: Sequence[Measured], method: str = METHOD) -> dict[str, Measured]:
    """What was found of each method in one setting: the last, with the most updates, that has this method."""
    settings = [one.setting for one in measured if one.method == method]
    return {one.method: one for one in measured if one.setting == settings[-1]} if settings else {}


def interval_of(value: Estimate) -> tuple[float, float] | None:
    """Student's interval of a violation rate over seeds; None for one seed."""
    if value.half_width is None:
        return None
    return max(0.0, value.mean - value.half_width), min(1.0, value.mean + value.half_width)


def lies_below(one: Estimate, other: Estimate) -> bool:
    """Whether a violation rate is lower, and the intervals over seeds do not overlap."""
    interval, other_interval = interval_of(one), interval_of(other)
    return interval is not None and other_interval is not None and interval[1] < other_interval[0]


def _claim(name: str, claimed: str, findings: Sequence[Finding]) -> Claim:
    texts = [text for _, text in findings if text]
    measured = "" if all(text.endswith(OPEN) for text in texts) else "; ".join(texts)
    return Claim(name, claimed, verdict(findings), measured)


def _defaults(
    title: str, outcomes: Sequence[Outcome], with_budget: Outcome | None
) -> list[tuple[str, Outcome | None]]:
    """The policies of the default learner that are held against the paper's: what they are called, what they do."""
    bare = (f"{title}: the default learner", in_one_setting(outcomes, DEFAULT).get(DEFAULT))
    if with_budget is None:
        return [bare]
    return [bare, (f"{bare[0]} at a budget of {percent(float(with_budget.budgets[0]))}", with_budget)]


def _default_claims(
    who: str, default: Outcome | None, papers: dict[str, Outcome], until_stop: bool
) -> list[Claim]:
    """What the default learner has to show beside the paper's system, on the same recordings."""
    free = papers.get(REWARD_ONLY)
    return [
        _claim(
            f"{who}, a fifth of the violations",
            f"`{OURS}` with labels as they are violates at most a fifth as often as the paper's baselines",
            [_fewer(default, papers.get(rival), rival) for rival in BASELINES],
        ),
        _claim(
            f"{who}, no loss of return",
            f"no statistically significant loss of return against the paper's {REWARD_ONLY} "
            f"(p > {SIGNIFICANT}), in full episodes"
            + (" and until the first violation" if until_stop else ""),
            [
                _return_kept(default, free, lambda o: o.mean_return),
                *([_return_kept(default, free, lambda o: o.until_stop)] if until_stop else []),
            ],
        ),
    ]


def _counts(outcome: Outcome) -> list[tuple[int, int]]:
    episodes = outcome.episodes // len(outcome.seeds)
    return [(round(rate * episodes), episodes) for rate in outcome.violation.values]


def _fewer(outcome: Outcome | None, other: Outcome | None, rival: str) -> Finding:
    if outcome is None or other is None:
        return OPEN, f"{rival}: {OPEN}"
    ratio, low, high = ratio_of_counts(_counts(outcome), _counts(other))
    kept = (
        0.0 < other.violation.mean >= FEWER * outcome.violation.mean
    )  # where nothing is left, nothing is reduced
    return _judged(
        kept,
        outcome,
        other,
        f"{percent(outcome.violation.mean)} against {percent(other.violation.mean)} of {rival}, "
        f"ratio {number(ratio)} ({number(low)} to {number(high)}), {_seeds(outcome.seeds, other.seeds)}",
    )


def _return_kept(outcome: Outcome | None, free: Outcome | None, of: Callable[[Outcome], Estimate]) -> Finding:
    """Whether a return is as high as reward-only's, as far as a test can say."""
    test = None if outcome is None or free is None else tested(of(outcome).values, of(free).values)
    if outcome is None or free is None or test is None:
        return OPEN, OPEN
    result = (
        f"difference {number(test.difference)}, p = {number(test.p)}, {_seeds(outcome.seeds, free.seeds)}"
    )
    fewest = min(len(outcome.seeds), len(free.seeds))
    if fewest < FEWEST:
        return OPEN, f"{result}: a test needs two seeds of each"
    if test.difference >= 0.0:
        return HOLDS, result
    # Without any spread p is not defined; a difference is then a difference.
    if test.p is None or test.p <= SIGNIFICANT:
        return FAILS, result
    if fewest < ENOUGH:
        return OPEN, f"{result}: with fewer than {ENOUGH} seeds a test that finds nothing says little"
    return HOLDS, result


def _better(outcomes: Sequence[Outcome], name: str, kind_of: Callable[[Outcome], str], rival: str) -> Finding:
    by_method = in_one_setting([o for o in outcomes if kind_of(o) == name])
    if METHOD not in by_method or rival not in by_method:
        return OPEN, f"{name}, {rival}: {OPEN}"
    outcome, other = by_method[METHOD], by_method[rival]
    kept = outcome.violation.mean < other.violation.mean
    return _judged(
        kept,
        outcome,
        other,
        f"{name}: {percent(outcome.violation.mean)} against {percent(other.violation.mean)} of {rival}, "
        f"{_seeds(outcome.seeds, other.seeds)}",
    )


def _judged(kept: bool, outcome: Outcome, other: Outcome, numbers: str) -> Finding:
    """A verdict, once there are seeds for one."""
    if min(len(outcome.seeds), len(other.seeds)) < FEWEST:
        return OPEN, f"{numbers}: one seed is a hint"
    return HOLDS if kept else FAILS, numbers


def _does_something(outcomes: dict[str, Outcome]) -> Finding:
    """Where violations are few because nothing is done, the numbers say so; the verdict is that on the return."""
    if METHOD not in outcomes or REWARD_ONLY not in outcomes:
        return OPEN, ""
    outcome, free = outcomes[METHOD], outcomes[REWARD_ONLY]
    if outcome.return_norm is None or free.return_norm is None or free.return_norm.mean <= 0:
        return HOLDS, ""
    share = outcome.return_norm.mean / free.return_norm.mean
    remark = ": safe because it does little" if share < LITTLE else ""
    return (
        HOLDS,
        f"normalised return {number(outcome.return_norm.mean)} of {number(free.return_norm.mean)}{remark}",
    )


def _rises(frontiers: Sequence[Frontier], task: str) -> Finding:
    """Rank correlation of the percentile that was asked for and the violation rate, over the seeds' means."""
    from scipy.stats import spearmanr

    matching = [f for f in frontiers if f.setting.task == task and f.method == METHOD]
    rates: dict[float, list[float]] = {}
    for policy in matching[0].policies if matching else ():
        if policy.budget.startswith("P"):
            rates.setdefault(float(policy.budget[1:]), []).append(policy.violation_rate)
    if len(rates) < 3:
        return OPEN, f"{task}: {OPEN}"
    means = {budget: float(np.mean(values)) for budget, values in sorted(rates.items())}
    if len(set(means.values())) == 1:
        return FAILS, f"{task}: {percent(next(iter(means.values())))} whatever the budget"
    rank = float(spearmanr(list(means), list(means.values()))[0])
    shown = ", ".join(f"P{budget:g} {percent(rate)}" for budget, rate in means.items())
    measured = f"{task}: {shown} (rank correlation {number(rank)})"
    if len(matching[0].seeds) < FEWEST:
        return OPEN, f"{measured}: one seed is a hint"
    return HOLDS if rank >= RISING else FAILS, measured


def _pays(frontiers: Sequence[Frontier]) -> list[Finding]:
    """The redistributor with the fewest violations at the same return, and whether intervals lie apart from sparse."""
    known = {f.method: f for f in frontiers if f.setting.learner == OURS}
    sparse = known.get("sparse")
    base = None if sparse is None else matched_at(sparse, MATCHED_SHARE)
    reached = {
        name: match
        for name, f in known.items()
        if name not in (REWARD_ONLY, "sparse", "sparse-outcome")
        and (match := matched_at(f, MATCHED_SHARE)) is not None
    }
    if base is None or not reached:
        return [(OPEN, OPEN)]
    best = min(reached, key=lambda name: reached[name].violation.mean)
    shown = (
        f"best: {best} {_with_interval(reached[best])}, sparse {_with_interval(base)}, at a return of "
        f"{number(base.target)}, {_seeds(reached[best].violation.values, base.violation.values)}"
    )
    if interval_of(reached[best].violation) is None or interval_of(base.violation) is None:
        return [(OPEN, f"{shown}: one seed has no interval")]
    return [(HOLDS if lies_below(reached[best].violation, base.violation) else FAILS, shown)]


def _with_interval(reached: Reached) -> str:
    ends = interval_of(reached.violation)
    return percent(reached.violation.mean) + (
        "" if ends is None else f" ({100 * ends[0]:.1f}–{percent(ends[1])})"
    )


def _seeds(seeds: Sequence[float], others: Sequence[float]) -> str:
    count = str(len(seeds)) if len(seeds) == len(others) else f"{len(seeds)} and {len(others)}"
    return f"{count} seed{'' if count == '1' else 's'}"

"""The answer of each experiment in a sentence or two that are made from numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rci.reporting.numbers import number, percent
from rci.reporting.paper.contents import (
    MATCHED_SHARE,
    Frontier,
    Outcome,
    Reached,
    Setting,
    matched_at,
    setting_names,
)
from rci.studies.paper.experiments import REWARD_ONLY
from rci.studies.paper.findings.claims import METHOD, lies_below

NOT_RUN = "Not run yet."
SHOWN = (METHOD, "sparse", "hazard", REWARD_ONLY)


def answer_of(name: str, outcomes: Sequence[Outcome], frontiers: Sequence[Frontier]) -> str:
    """The answer of an experiment; that it was not run, or that nothing was selected, where it has none."""
    if not outcomes and not frontiers:
        return NOT_RUN
    answer = {
        "readings": lambda: _by_kind(outcomes, lambda o: o.setting.task),
        "composition": lambda: _by_kind(outcomes, lambda o: o.setting.dataset),
        "label-noise": lambda: _by_kind(outcomes, lambda o: o.setting.noise),
        "controls": lambda: _ranked(frontiers),
        "best-learner": lambda: _ranked(frontiers),
        "best-learner-arm": lambda: _ranked(frontiers),
        "when-it-pays": lambda: _cells_won(frontiers),
        "imperfect-labels": lambda: _cells_won(frontiers),
        "horizon": lambda: _cells_won(frontiers),
    }.get(name, lambda: _main(outcomes))()
    return answer or "Rows are there, but not enough of them for an answer yet."


def _main(outcomes: Sequence[Outcome]) -> str:
    """Violation rates and returns of the methods."""
    by_method = {o.method: o for o in outcomes}
    rates = [
        f"{by_method[name].method} {percent(by_method[name].violation.mean)} at a return of "
        f"{number(by_method[name].mean_return.mean)} ({_seeds(by_method[name].seeds)})"
        for name in SHOWN
        if name in by_method
    ]
    return f"Violation rates: {', '.join(rates)}." if rates else ""


def _by_kind(outcomes: Sequence[Outcome], kind_of: Callable[[Outcome], str]) -> str:
    """Violation rates of the methods, kind by kind."""
    kinds = []
    for kind in dict.fromkeys(kind_of(o) for o in outcomes):
        by_method = {o.method: o for o in outcomes if kind_of(o) == kind}
        rates = ", ".join(
            f"{name} {percent(by_method[name].violation.mean)}" for name in SHOWN if name in by_method
        )
        if rates:
            kinds.append(f"{kind}: {rates}")
    return f"Violation rates: {'; '.join(kinds)}." if kinds else ""


def _ranked(frontiers: Sequence[Frontier]) -> str:
    """All methods by their violation rate at the same return, the best first, setting by setting."""
    sentences = []
    names = setting_names(list(dict.fromkeys(f.setting for f in frontiers)))
    for setting, name in names.items():
        group = [f for f in frontiers if f.setting == setting and f.method != REWARD_ONLY]
        target = next((m.target for f in group for m in f.matched if m.share == MATCHED_SHARE), None)
        if target is None:
            continue
        rates = sorted(
            (match.violation.mean, f.method, _reached_by(match, f))
            for f in group
            if (match := matched_at(f, MATCHED_SHARE)) is not None
        )
        ranking = "; ".join(f"{method} {percent(rate)}{seeds}" for rate, method, seeds in rates)
        short = "; ".join(f.method for f in group if matched_at(f, MATCHED_SHARE) is None)
        where = f" ({name})" if name else ""
        if ranking:
            sentences.append(
                f"Violation rates for a return of {number(target)}{where}, best first: {ranking}."
            )
        if short:
            sentences.append(f"A return of {number(target)}{where} is not reached by: {short}.")
    return " ".join(sentences)


def _reached_by(found: Reached, frontier: Frontier) -> str:
    """How many seeds reach a return, if not all do."""
    every = len(frontier.seeds)
    return "" if found.seeds == every else f" ({found.seeds} of {every} seeds)"


def _cells_won(frontiers: Sequence[Frontier]) -> str:
    """In how many settings redistributed costs violate less at the same return, and where intervals lie apart."""
    by_setting: dict[Setting, dict[str, Frontier]] = {}
    for one in frontiers:
        by_setting.setdefault(one.setting, {})[one.method] = one
    sentences = []
    for method in dict.fromkeys(f.method for f in frontiers if f.method not in (REWARD_ONLY, "sparse")):
        pairs = [
            (setting, ours, other)
            for setting, by_method in by_setting.items()
            if method in by_method
            and "sparse" in by_method
            and (ours := matched_at(by_method[method], MATCHED_SHARE)) is not None
            and (other := matched_at(by_method["sparse"], MATCHED_SHARE)) is not None
        ]
        if not pairs:
            continue
        won = [setting for setting, ours, other in pairs if ours.violation.mean < other.violation.mean]
        apart = [setting for setting, ours, other in pairs if lies_below(ours.violation, other.violation)]
        names = setting_names([setting for setting, _, _ in pairs])
        where = f": {'; '.join(names[setting] for setting in apart)}" if apart else ""
        sentences.append(
            f"{method} violates less than sparse at the same return in {len(won)} of {len(pairs)} settings, with "
            f"intervals apart in {len(apart)}{where}."
        )
    return " ".join(sentences)


def _seeds(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"

"""What each experiment asks, and its answer in one sentence that is made from numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rci.reporting.paper_contents import (
    MATCHED_SHARE,
    Frontier,
    Outcome,
    Reached,
    budget_share,
    matched_at,
    matched_ratio,
    setting_names,
)
from rci.reporting.summary import number, percent
from rci.run.paper.bars import METHOD
from rci.run.paper.policy_rows import REWARD_ONLY

NOT_RUN = "Not run yet."
SHOWN = (METHOD, "sparse", "hazard", REWARD_ONLY)
# name: title and question, in the order in which experiments are shown
QUESTIONS = {
    "highway": (
        "Safe navigation",
        "How often do policies on the highway come too close, and what do they earn?",
    ),
    "highway-disc": (
        "Safe navigation, with a disc of 20 m",
        "How often do policies come within 20 m of another car, in whichever lane, and what do they earn?",
    ),
    "fetch-reach": (
        "Safe continuous control",
        "How often does the arm enter the hazard, and how well does it reach?",
    ),
    "frontier": ("Safety at the same return", "How few violations does each method need for a given return?"),
    "composition": ("Dataset composition", "Does it matter who recorded the data?"),
    "label-noise": (
        "Label noise",
        "What if stops come too early or too late, or every fifth label is wrong?",
    ),
    "calibration": ("Budgets that come true", "Does a policy violate as often as was asked for?"),
    "label-efficiency": ("Label efficiency", "How many labelled episodes does each method need?"),
    "when-it-pays": (
        "When redistribution pays",
        "For how many labels and updates does rci beat the alternatives? The policies of label efficiency.",
    ),
    "grid": ("Redistributors and learners", "Which step costs go with which learner?"),
    "highway-two": ("Two kinds of danger", "Can two kinds of danger be kept apart?"),
    "horizon": ("Horizon", "Does redistribution pay more where a violation is further from its cause?"),
    "ingredients": ("Ingredients", "What makes redistribution pay? Logs and tests of another seed."),
}


def answer_of(name: str, outcomes: Sequence[Outcome], frontiers: Sequence[Frontier]) -> str:
    """The answer of an experiment; that it was not run, or that nothing was selected, where it has none."""
    if not outcomes and not frontiers:
        return NOT_RUN
    answer = {
        "frontier": lambda: _matched(frontiers),
        "composition": lambda: _by_kind(outcomes, lambda o: o.setting.dataset),
        "label-noise": lambda: _by_kind(outcomes, lambda o: o.setting.noise),
        "calibration": lambda: _calibration(frontiers),
        "label-efficiency": lambda: _efficiency(frontiers),
        "when-it-pays": lambda: _cells_won(frontiers),
        "grid": lambda: _best_pair(outcomes),
        "highway-two": lambda: _channels(outcomes),
        "horizon": lambda: _by_kind(outcomes, lambda o: o.setting.task),
        "ingredients": lambda: _ranked(frontiers),
    }.get(name, lambda: _main(outcomes))()
    return answer or "Rows are there, but not enough of them for an answer yet."


def _main(outcomes: Sequence[Outcome]) -> str:
    """Violation rates and returns of the methods."""
    own = {o.method: o for o in outcomes}
    told = [
        f"{own[name].method} {percent(own[name].violation.mean)} at a return of "
        f"{number(own[name].mean_return.mean)} ({_seeds(own[name].seeds)})"
        for name in SHOWN
        if name in own
    ]
    return f"Violation rates: {', '.join(told)}." if told else ""


def _by_kind(outcomes: Sequence[Outcome], kind_of: Callable[[Outcome], str]) -> str:
    """Violation rates of the methods, kind by kind."""
    told = []
    for kind in dict.fromkeys(kind_of(o) for o in outcomes):
        own = {o.method: o for o in outcomes if kind_of(o) == kind}
        rates = ", ".join(f"{name} {percent(own[name].violation.mean)}" for name in SHOWN if name in own)
        if rates:
            told.append(f"{kind}: {rates}")
    return f"Violation rates: {'; '.join(told)}." if told else ""


def _matched(frontiers: Sequence[Frontier]) -> str:
    sentences = []
    for task in dict.fromkeys(f.setting.task for f in frontiers):
        own = [f for f in frontiers if f.setting.task == task and f.method != REWARD_ONLY]
        rates = [
            f"{f.method} {percent(found.violation.mean)}"
            for f in own
            if (found := matched_at(f, MATCHED_SHARE)) is not None
        ]
        target = next((m.target for f in own for m in f.matched if m.share == MATCHED_SHARE), None)
        if rates and target is not None:
            sentences.append(
                f"Violation rates for a return of {number(target)} on {task}: {', '.join(rates)}."
            )
    return " ".join(sentences)


def _ranked(frontiers: Sequence[Frontier]) -> str:
    """All methods by their violation rate at the same return, the best first, setting by setting."""
    sentences = []
    names = setting_names(list(dict.fromkeys(f.setting for f in frontiers)))
    for setting, name in names.items():
        own = [f for f in frontiers if f.setting == setting and f.method != REWARD_ONLY]
        target = next((m.target for f in own for m in f.matched if m.share == MATCHED_SHARE), None)
        if target is None:
            continue
        rates = sorted(
            (found.violation.mean, f.method, _reached_by(found, f))
            for f in own
            if (found := matched_at(f, MATCHED_SHARE)) is not None
        )
        told = "; ".join(f"{method} {percent(rate)}{seeds}" for rate, method, seeds in rates)
        short = "; ".join(f.method for f in own if matched_at(f, MATCHED_SHARE) is None)
        where = f" ({name})" if name else ""
        if told:
            sentences.append(f"Violation rates for a return of {number(target)}{where}, best first: {told}.")
        if short:
            sentences.append(f"A return of {number(target)}{where} is not reached by: {short}.")
    return " ".join(sentences)


def _reached_by(found: Reached, frontier: Frontier) -> str:
    """How many seeds reach a return, if not all do."""
    every = len(frontier.seeds)
    return "" if found.seeds == every else f" ({found.seeds} of {every} seeds)"


def _calibration(frontiers: Sequence[Frontier]) -> str:
    sentences = []
    for task in dict.fromkeys(f.setting.task for f in frontiers):
        told = []
        for one in (f for f in frontiers if f.setting.task == task):
            asked = [(budget_share(p.budget), p.violation_rate) for p in one.policies]
            gaps = [abs(rate - share) for share, rate in asked if share is not None]
            if gaps:
                told.append(f"{one.method} {100 * float(np.mean(gaps)):.1f}")
        if told:
            sentences.append(f"Asked and realised on {task} are apart by, in points: {', '.join(told)}.")
    return " ".join(sentences)


def _efficiency(frontiers: Sequence[Frontier]) -> str:
    """Violation rates at the same return after the longest training, with the fewest and with the most labels."""
    sentences = []
    for task in dict.fromkeys(f.setting.task for f in frontiers):
        reached = [
            (f.setting, f"{f.method} {percent(found.violation.mean)}")
            for f in frontiers
            if f.setting.task == task
            and f.method != REWARD_ONLY
            and (found := matched_at(f, MATCHED_SHARE)) is not None
        ]
        longest = max((setting.updates for setting, _ in reached), default=0)
        reached = [(setting, told) for setting, told in reached if setting.updates == longest]
        counts = sorted({setting.labelled for setting, _ in reached})
        for labelled in dict.fromkeys((*counts[:1], *counts[-1:])):
            rates = ", ".join(told for setting, told in reached if setting.labelled == labelled)
            sentences.append(
                f"With {labelled:,} labelled episodes and {longest:,} updates on {task}: {rates}."
            )
    return " ".join(sentences)


def _cells_won(frontiers: Sequence[Frontier]) -> str:
    """In how many cells rci violates less at the same return."""
    sentences = []
    for task in dict.fromkeys(f.setting.task for f in frontiers):
        own = {(f.setting, f.method): f for f in frontiers if f.setting.task == task}
        for rival in dict.fromkeys(method for _, method in own if method not in (METHOD, REWARD_ONLY)):
            ratios = [
                matched_ratio(own[setting, METHOD], own[setting, rival], MATCHED_SHARE)
                for setting in dict.fromkeys(setting for setting, _ in own)
                if (setting, METHOD) in own and (setting, rival) in own
            ]
            known = [ratio for ratio in ratios if ratio is not None]
            if known:
                won = sum(ratio < 1.0 for ratio in known)
                sentences.append(
                    f"On {task}, {METHOD} violates less than {rival} in {won} of {len(known)} cells."
                )
    return " ".join(sentences)


def _best_pair(outcomes: Sequence[Outcome]) -> str:
    """The pair with the fewest violations among those that keep half of the range of returns."""
    sentences = []
    for task in dict.fromkeys(o.setting.task for o in outcomes):
        own = [o for o in outcomes if o.setting.task == task and o.method != REWARD_ONLY]
        if not own:
            continue
        returns = [o.mean_return.mean for o in own]
        bar = (min(returns) + max(returns)) / 2.0
        best = min((o for o in own if o.mean_return.mean >= bar), key=lambda o: o.violation.mean)
        sentences.append(
            f"On {task}, of the pairs in the upper half of returns, {best.method} with {best.setting.learner} violates "
            f"least: {percent(best.violation.mean)} at a return of {number(best.mean_return.mean)}."
        )
    return " ".join(sentences)


def _channels(outcomes: Sequence[Outcome]) -> str:
    told = " ".join(
        f"{o.method}: {', '.join(f'{name} {percent(rate.mean)}' for name, rate in o.channels)}, at a return of "
        f"{number(o.mean_return.mean)} ({_seeds(o.seeds)})."
        for o in outcomes
        if o.channels
    )
    return f"First violations by kind of danger. {told}" if told else ""


def _seeds(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"

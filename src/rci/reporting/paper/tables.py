"""The tables of the paper's experiments: the same cells as Markdown, as CSV and on the page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import NamedTuple

from rci.data.errors import printable
from rci.reporting.markdown import table
from rci.reporting.numbers import column_decimals, fixed, number, percent
from rci.reporting.paper.contents import (
    Estimate,
    Experiment,
    Frontier,
    Matched,
    Outcome,
    PaperSummary,
    Ratio,
    Setting,
    setting_names,
)

MISSING = "–"
OUTCOMES, CONTRASTS, FRONTIERS = "outcomes", "contrasts", "frontiers"
USUAL = (OUTCOMES, CONTRASTS, FRONTIERS)
# Where a learner has a threshold for every wish, no one policy is selected: methods are compared at the same return.
KINDS: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("controls", "best-learner", "best-learner-arm", "when-it-pays", "imperfect-labels", "horizon"),
    (FRONTIERS,),
)
SEEDS_NOTE = "Every seed has a recording, a behaviour model, step costs and trainings of its own."
OUTCOME_NOTE = (
    "The selected policy of each seed: the lowest violation rate on selection episodes, then tested on fresh ones. "
    "± standard error over seeds. Interval: 95% Clopper-Pearson over the episodes of all seeds. From logs: the policy "
    "chosen without a simulator, by the lowest predicted cost among those in the upper half of predicted returns. "
    f"{SEEDS_NOTE}"
)
WAY_NOTE = (
    "Share of the way: from reward-only (0%) to the best driver who knows the danger (100%, rci reference), by the "
    "share of return kept, from random actions to the blind driver, less the violation rate."
)
CONTRAST_NOTE = (
    "Ratio: violation rate of the selected policies divided by that of the other method, with its 95% bootstrap "
    "interval within seeds. Difference: return minus that of reward-only; p: Welch's t-test over seeds. "
    f"{SEEDS_NOTE}"
)
FRONTIER_NOTE = (
    "Violation rate of the mixture of a method's policies, reward-only's among them, that reaches a return; chosen on "
    "selection episodes, tested on fresh ones: behind `at` the return that it had there, behind `asked` the one it was "
    "chosen for. The way goes from the return of the safest policies up to that of "
    "reward-only. ± half of Student's 95% interval over seeds; in brackets the 95% interval over the episodes of all "
    "seeds. Area: the mean over all returns from the first to the last column, of the seeds that reach them all. "
    f"{SEEDS_NOTE}"
)
FIGURES = re.compile(
    r"[-+\d.,±%()\[\]/;: toe]*"
)  # numbers and what stands between them, no name of a function


def spreadsheet_text(cell: str) -> str:
    """A cell that a spreadsheet does not take for a formula: one that could be gets an apostrophe in front."""
    cell = printable(cell)
    begins = cell.lstrip()[:1] in tuple("=+-@")
    return f"'{cell}" if begins and not FIGURES.fullmatch(cell) else cell


class PaperTable(NamedTuple):
    """A table: its file name, its title, its cells as text, and what they mean."""

    name: str
    title: str
    headers: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """The table as Markdown."""
        plain = [[cell.replace("|", "\\|") for cell in line] for line in self.cells]
        return table(self.headers, plain)

    def csv(self) -> str:
        """The table as CSV, with ASCII minus signs."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.headers)
        writer.writerows([[spreadsheet_text(cell.replace("−", "-")) for cell in line] for line in self.cells])
        return text.getvalue()


def paper_tables(summary: PaperSummary) -> dict[str, list[PaperTable]]:
    """The tables of every experiment that has any, by experiment."""
    return {
        experiment.name: tables
        for experiment in summary.experiments
        if (tables := experiment_tables(experiment))
    }


def experiment_tables(experiment: Experiment) -> list[PaperTable]:
    """The tables of one experiment; those without a line are left out."""
    made = {
        OUTCOMES: outcome_table,
        CONTRASTS: contrast_table,
        FRONTIERS: frontier_table,
    }
    kinds = KINDS.get(experiment.name, USUAL)
    return [found for kind in kinds if (found := made[kind](experiment)).cells]


def claim_table(summary: PaperSummary) -> PaperTable:
    """What was claimed, and what came of it."""
    cells = tuple((claim.name, claim.claimed, claim.verdict, claim.measured) for claim in summary.claims)
    return PaperTable("claims", "Claimed and measured", ("where", "claimed", "verdict", "measured"), cells)


def outcome_table(experiment: Experiment) -> PaperTable:
    """One line per setting and method: what the selected policies do."""
    outcomes = experiment.outcomes
    decimals = column_decimals([one.mean_return.mean for one in outcomes])
    where, columns = _where([one.setting for one in outcomes])
    has_way = any(one.share_of_way is not None for one in outcomes)
    cells = tuple(
        (
            *columns[one.setting],
            one.method,
            _budgets(one.budgets),
            str(len(one.seeds)),
            share_with_error(one.violation),
            f"{100 * one.low:.1f}–{percent(one.high)}",
            MISSING if one.return_norm is None else with_error(one.return_norm, 2),
            with_error(one.mean_return, decimals),
            with_error(one.until_stop, decimals),
            *((MISSING if one.share_of_way is None else percent(one.share_of_way),) if has_way else ()),
            MISSING if one.log_violation is None else share_with_error(one.log_violation),
            MISSING if one.log_return is None else with_error(one.log_return, decimals),
        )
        for one in outcomes
    )
    headers = (
        *where, "method", "budget", "seeds", "violation rate", "95% interval", "normalised return", "return",
        "return until violation", *(("share of the way",) if has_way else ()), "from logs: violation rate",
        "from logs: return",
    )  # fmt: skip
    note = f"{OUTCOME_NOTE} {WAY_NOTE}" if has_way else OUTCOME_NOTE
    return PaperTable(experiment.name, f"{experiment.title}: selected policies", headers, cells, note)


def contrast_table(experiment: Experiment) -> PaperTable:
    """One line per setting and method: violations and returns against those of other methods."""
    compared = [one for one in experiment.outcomes if one.ratios and one.method != "reward-only"]
    rivals = [name for name in ("sparse", "hazard", "reward-only") if _is_compared(compared, name)]
    where, columns = _where([one.setting for one in compared])
    cells = []
    for one in compared:
        ratios = {ratio.to: ratio for ratio in one.ratios}
        differences = [
            MISSING if test is None else f"{number(test.difference)} (p {number(test.p)})"
            for test in (one.against, one.against_until_stop)
        ]
        ratio_cells = [_ratio(ratios.get(name)) for name in rivals]
        cells.append((*columns[one.setting], one.method, str(len(one.seeds)), *ratio_cells, *differences))
    headers = (
        *where, "method", "seeds", *(f"violations, ratio to {name}" for name in rivals),
        "return, difference to reward-only", "until violation, difference",
    )  # fmt: skip
    title = f"{experiment.title}: against other methods"
    return PaperTable(f"{experiment.name}-contrasts", title, headers, tuple(cells), CONTRAST_NOTE)


def frontier_table(experiment: Experiment) -> PaperTable:
    """One line per setting and method: violation rates at matched returns."""
    frontiers = [one for one in experiment.frontiers if one.matched and one.method != "reward-only"]
    where, columns = _where([one.setting for one in frontiers])
    shares = list(dict.fromkeys(match.share for one in frontiers for match in one.matched))
    cells = tuple(
        (
            *columns[one.setting],
            one.method,
            str(len(one.seeds)),
            str(len(one.policies)),
            *(_matched(match, one) for match in one.matched),
            _area(one),
        )
        for one in frontiers
    )
    headers = (
        *where, "method", "seeds", "policies", *(f"{100 * share:g}% of the way up" for share in shares), "area",
    )  # fmt: skip
    title = f"{experiment.title}: violation rates at the same return"
    return PaperTable(f"{experiment.name}-matched", title, headers, cells, FRONTIER_NOTE)


def share_with_error(value: Estimate) -> str:
    """A share with its standard error over seeds, as in 2.1% ± 0.7."""
    return percent(value.mean) + ("" if value.error is None else f" ± {100 * value.error:.1f}")


def share_with_interval(value: Estimate) -> str:
    """A share with half of its interval over seeds."""
    return percent(value.mean) + ("" if value.half_width is None else f" ± {100 * value.half_width:.1f}")


def with_error(value: Estimate, decimals: int) -> str:
    """A number with its standard error over seeds."""
    return fixed(value.mean, decimals) + ("" if value.error is None else f" ± {fixed(value.error, decimals)}")


def _where(settings: Sequence[Setting]) -> tuple[tuple[str, ...], dict[Setting, tuple[str, ...]]]:
    """One column with what differs between settings, or none."""
    names = setting_names(list(dict.fromkeys(settings)))
    if not any(names.values()):
        return (), dict.fromkeys(names, ())
    return ("setting",), {setting: (name,) for setting, name in names.items()}


def _is_compared(outcomes: Sequence[Outcome], name: str) -> bool:
    return any(ratio.to == name for one in outcomes for ratio in one.ratios)


def _budgets(budgets: Sequence[str]) -> str:
    """The budgets that were selected, each once."""
    return ", ".join("none" if budget == "inf" else budget for budget in sorted(set(budgets)))


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return MISSING
    return f"{number(ratio.ratio)} ({number(ratio.low)} to {number(ratio.high)})"


def _matched(match: Matched, frontier: Frontier) -> str:
    """A violation rate, the return it goes with, the one asked for, and how many seeds reach that if not all do."""
    reached = match.reached
    if reached is None:
        return f"{number(match.target)} not reached"
    every = len(frontier.seeds)
    short = "" if reached.seeds == every else f", {_seeds(reached.seeds, every)}"
    pooled = f"({100 * reached.low:.1f}–{percent(reached.high)})"
    return (
        f"{share_with_interval(reached.violation)} {pooled} at {number(reached.mean_return)}, "
        f"asked {number(match.target)}{short}"
    )


def _area(frontier: Frontier) -> str:
    """The area, and how many seeds reach all the returns that it is over."""
    if frontier.area is None:
        return MISSING
    return f"{share_with_interval(frontier.area)}, {_seeds(len(frontier.area.values), len(frontier.seeds))}"


def _seeds(count: int, of: int) -> str:
    """How many seeds a number rests on."""
    every = f"{of} seed{'' if of == 1 else 's'}"
    return every if count == of else f"{count} of {every}"

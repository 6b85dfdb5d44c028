"""From rows of evaluated policies to everything that is shown of the paper's experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rci.evaluation.reference import Ruler
from rci.pipeline.results.known_danger import known_points
from rci.pipeline.results.rows import Row
from rci.reporting.figures.palette import study_looks
from rci.reporting.paper.contents import Experiment, Frontier, Outcome, PaperSummary, shown_order
from rci.studies.paper.findings.answers import answer_of
from rci.studies.paper.findings.claims import check_claims
from rci.studies.paper.findings.frontiers import compared_returns, method_frontier, recording
from rci.studies.paper.findings.outcomes import outcome
from rci.studies.paper.findings.policy_rows import REWARD_ONLY, PolicyRow, one_row_per_policy, policy_rows
from rci.studies.paper.questions import QUESTIONS


def paper_summary(
    rows: Sequence[Row],
    rulers: Mapping[str, Ruler] | None = None,
    with_budget: Mapping[str, Outcome] | None = None,
) -> PaperSummary:
    """Everything that these rows say, however many of them there are yet.

    rulers: what is possible, by task; with_budget: what the default learner does at a budget, by task.
    """
    every_row, rulers = policy_rows(rows), rulers or {}
    policies = one_row_per_policy(every_row)
    names = [*QUESTIONS, *sorted({row.experiment for row in every_row} - set(QUESTIONS))]
    returns = compared_returns(every_row)
    unlimited = [row for row in every_row if row.method == REWARD_ONLY]
    experiments = []
    for name in names:
        experiment_rows = rows_of_experiment(name, every_row)
        outcomes, frontiers = [], []
        for setting in sorted({row.setting for row in experiment_rows}, key=shown_order):
            by_method = _by_method([row for row in experiment_rows if row.setting == setting])
            measure = rulers.get(setting.task)
            found = (outcome(setting, method, by_method, measure) for method in by_method)
            outcomes += [one for one in found if one is not None]
            asked = returns.get(recording(setting))
            frontiers += [
                method_frontier(setting, method, by_method[method], unlimited, asked) for method in by_method
            ]
        experiments.append(_experiment(name, outcomes, frontiers, experiment_rows, rulers))
    return PaperSummary(
        experiments=tuple(experiments),
        claims=check_claims(experiments, with_budget),
        rows=len(policies),
        seconds=sum(row.seconds for row in policies),
        versions=tuple(sorted({row.versions for row in every_row})),
    )


def rows_of_experiment(name: str, every_row: Sequence[PolicyRow]) -> list[PolicyRow]:
    """The rows that an experiment shows."""
    return [row for row in every_row if row.experiment == name]


def _by_method(rows: Sequence[PolicyRow]) -> dict[str, list[PolicyRow]]:
    """The rows of each method, methods in the order in which they are shown."""
    order = study_looks({row.method for row in rows})
    return {method: [row for row in rows if row.method == method] for method in order}


def _experiment(
    name: str,
    outcomes: Sequence[Outcome],
    frontiers: Sequence[Frontier],
    rows: Sequence[PolicyRow],
    rulers: Mapping[str, Ruler],
) -> Experiment:
    title, question = QUESTIONS.get(name, (name, "What came out?"))
    return Experiment(
        name=name,
        title=title,
        question=question,
        answer=answer_of(name, outcomes, frontiers),
        outcomes=tuple(outcomes),
        frontiers=tuple(frontiers),
        rows=len(rows),
        seeds=tuple(sorted({row.seed for row in rows})),
        references={task: known_points(measure) for task, measure in rulers.items()},
    )

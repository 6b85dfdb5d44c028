"""`rci select`: judge trained policies from logs alone, and choose one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.engines.engine import reporting
from rci.engines.progress import show_progress
from rci.pipeline.results.rows import Row


def select_policies(
    inputs: dict[str, Path],
    paths: Sequence[Path],
    budget: str | None,
    rule: str,
    share: float | None,
    options: dict[str, Any],
    seed: int,
) -> dict[str, Any]:
    """What became of every policy, and which one was chosen, as JSON values. The policies are judged one by one."""
    from rci import load
    from rci.data import store
    from rci.data.risk.budgets import parse_budget
    from rci.learning.judging.estimate import estimate_all
    from rci.learning.judging.fqe import parse_options
    from rci.learning.judging.selection import check_rule, select

    parse_options(options)
    check_rule(rule, budget, share)
    for i, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:i]]:
            raise RciError(f"the policy {path} is given twice.")
    for path in paths:
        if (kind := store.read_manifest(path)["kind"]) != "policy":
            raise RciError(f"{path} holds {kind!r}, but 'policy' is needed here.")
    policies = [load(path) for path in paths]
    episodes, labels, costs = (store.read(inputs[kind], kind) for kind in ("episodes", "labels", "costs"))
    recorded = int(episodes.obs[0].size)
    for path, policy in zip(paths, policies):
        if policy.info["obs_size"] != recorded:
            raise RciError(
                f"{path} was trained on {policy.info['obs_size']} features, but {inputs['episodes']} has {recorded}."
            )
    with show_progress() as report:
        with reporting(report, "estimate") as progress:
            estimates = estimate_all(policies, episodes, labels, seed=seed, progress=progress)
        # Percentiles and budgets by channel are of step costs, and no chance of a stop is held against them.
        by_chance = budget is None or not isinstance(parse_budget(budget), str)
        with reporting(report, "judge") as progress:
            selection = select(
                policies,
                episodes,
                labels,
                costs,
                budget=budget,
                rule=rule,
                share=share,
                seed=seed,
                progress=progress,
                estimates=estimates if by_chance else None,
                **options,
            )
    rows = []
    allowed = float(selection.budget) if by_chance and selection.budget is not None else None
    for path, policy, judged, estimate in zip(paths, policies, selection.judgements, estimates):
        predicted = {
            name: policy.info[name] for name in ("predicted_return", "predicted_cost") if name in policy.info
        }
        rows.append(
            {
                "policy": str(path),
                "stop": list(estimate.stop),
                "logged_stop": list(estimate.logged_stop),
                "worse_than_logs": estimate.worse_than_logs,
                "verdict": None if allowed is None else estimate.verdict(allowed).word,
                **_by_channel(asdict(judged), costs.channels),
                **predicted,
            }
        )
    threshold = None if selection.threshold is None else [_finite(number) for number in selection.threshold]
    return {
        "chosen": str(paths[selection.chosen]) if selection.kept else None,
        "rule": selection.rule,
        "budget": selection.budget,
        "threshold": _named(threshold, costs.channels),
        "share": selection.share,
        "policies": rows,
    }


def selection_table(selection: dict[str, Any]) -> str:
    """The policies as a Markdown table, the chosen one marked."""
    from rci.reporting.markdown import table

    heads = [
        "policy",
        "estimated stops",
        "verdict",
        "judged return",
        "judged cost",
        "threshold",
        "own critics: return",
        "cost",
        "",
    ]
    lines = [
        [
            row["policy"],
            _stops(row["stop"]),
            row["verdict"] or "–",
            f"{_shown(row['expected_return'])} ± {_shown(row['return_error'])}",
            _with_errors(row["expected_cost"], row["cost_error"]),
            _shown(selection["threshold"]),
            _shown(row.get("predicted_return")),
            _shown(row.get("predicted_cost")),
            "chosen" if row["policy"] == selection["chosen"] else "",
        ]
        for row in selection["policies"]
    ]
    return table(heads, lines).rstrip()


def selection_remarks(selection: dict[str, Any]) -> list[str]:
    """Sentences about policies that are stopped more often than the logs, and about a choice that nothing allows."""
    remarks = [
        f"{row['policy']} is worse than the logs: stops are estimated in {_stops(row['stop'])} of its episodes, and "
        f"the logs were stopped in {row['logged_stop'][0]:.1%}."
        for row in selection["policies"]
        if row["worse_than_logs"]
    ]
    if selection["chosen"] is None:
        lowest = min(selection["policies"], key=lambda row: row["stop"][0])
        remarks.append(
            f"no policy is within the budget of {selection['budget']}; the lowest estimate is that of "
            f"{lowest['policy']}, stopped in {_stops(lowest['stop'])}."
        )
    return remarks


def _stops(stop: Sequence[float]) -> str:
    """A chance of a stop and its interval."""
    estimate, low, high = stop
    return f"{estimate:.1%} ({low:.1%} to {high:.1%})"


def _by_channel(judged: Row, channels: Sequence[str]) -> Row:
    """A judgement with its costs under the names of their channels, or as one number."""
    names = [name for name in judged if name.startswith(("expected_cost", "cost_"))]
    by_name = {name: _named(judged[name], channels) for name in names}
    return {name: value for name, value in {**judged, **by_name}.items() if name != "channels"}


def _named(numbers: Sequence[Any] | None, channels: Sequence[str]) -> Any:
    if numbers is None:
        return None
    return dict(zip(channels, numbers)) if channels else numbers[0]


def _finite(number: float) -> float | str:
    """JSON knows no infinity."""
    return "inf" if number == float("inf") else number


def _with_errors(cost: Any, error: Any) -> str:
    if isinstance(cost, dict):
        return ", ".join(f"{name} {_shown(cost[name])} ± {_shown(error[name])}" for name in cost)
    return f"{_shown(cost)} ± {_shown(error)}"


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(number)}" for name, number in value.items())
    return value if isinstance(value, str) else f"{value:.3g}"

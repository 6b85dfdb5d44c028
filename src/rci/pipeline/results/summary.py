"""Gather the artefacts of a finished run into its table of results and its report."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rci.data import store
from rci.data.errors import RciError
from rci.data.options import build
from rci.data.record import Array
from rci.data.types import Policy, Scores, StepCosts, kept_rows
from rci.pipeline.companions import oracle_of
from rci.pipeline.config import RunConfig
from rci.pipeline.folder import read_timings, write_json
from rci.pipeline.plan import Entry, cost_name, entries, entry_seed

if TYPE_CHECKING:
    from rci.evaluation.reference import Ruler
    from rci.reporting.run.contents import (
        ChannelResult,
        Contrast,
        CriticMap,
        FieldMap,
        LadderOf,
        MethodResult,
    )
    from rci.tasks.base import Probe, Task


def write_summary(config: RunConfig, out: Path, command: str) -> Path:
    """Write results.json and report/index.html of a run whose jobs are all done."""
    from rci.pipeline.results.known_danger import known_points
    from rci.reporting.run.contents import ReportInput
    from rci.reporting.run.page import write_report
    from rci.tasks import get

    scores = {entry: store.read(out / "scores" / entry.name, "scores") for entry in entries(config)}
    write_json(out / "results.json", result_rows(config, scores))
    measure = known_danger(config.task, out)
    results = [
        method_result(out, list(group), scores, measure)
        for _, group in groupby(entries(config), key=lambda entry: (entry.method, entry.budget))
    ]
    episodes, labels = store.read(out / "episodes", "episodes"), store.read(out / "labels", "labels")
    oracle = store.read(oracle_of(out / "episodes"), "oracle")
    labels.check_parent(episodes)
    oracle.check_parent(episodes)
    task, demonstrators = get(config.task), read_demonstrators(config, out)
    exact = task.risk if demonstrators is None else None  # known for scripted behaviours only
    return write_report(
        ReportInput(
            task=config.task,
            title=f"RCI on {config.task}",
            settings=config.as_table(),
            command=command,
            versions=store.read_manifest(out / "scores" / entries(config)[0].name)["provenance"]["versions"],
            timings=stage_seconds(read_timings(out)),
            episodes=episodes,
            oracle=oracle,
            labels=labels,
            costs=read_costs(config, out),
            risk=None if exact is None else exact(episodes)[kept_rows(episodes, labels)],
            results=tuple(results),
            critic_maps=critic_maps(config, out, task),
            field_maps=field_maps(config, out, task),
            demonstrators=demonstrators,
            reference=known_points(measure),
            ladders=ladders(config, out, scores),
            **reach_of(out),
        ),
        out / "report",
    )


def ladders(config: RunConfig, out: Path, scores: dict[Entry, Scores]) -> tuple[LadderOf, ...]:
    """What was expected of the first training of each method; nothing of learners that have no thresholds."""
    from rci.data.risk.thresholds import Ladder
    from rci.reporting.run.contents import LadderOf

    found = []
    for method in config.compare.methods:
        first = [entry for entry in scores if entry.method == method and entry.seed == 0]
        infos = [store.read_manifest(out / "policies" / one.name)["meta"]["info"] for one in first]
        if method == "reward-only" or "ladder" not in infos[0] or infos[0].get("channels"):
            continue
        one = Ladder.from_table(infos[0]["ladder"])
        tested = [(float(info["threshold"]), scores[e].violation_rate) for info, e in zip(infos, first)]
        threshold, estimate, bound = (
            tuple(v.ravel().tolist()) for v in (one.threshold, one.estimate, one.bound)
        )
        found.append(LadderOf(method, threshold, estimate, bound, tuple(tested)))
    return tuple(found)


def reach_of(out: Path) -> dict[str, Any]:
    """How far the behaviour model of a run reaches, where it has one."""
    from rci.learning.proposals.reach import describe_reach

    if not (out / "behaviour" / "manifest.json").is_file():
        return {}
    reach = store.read_manifest(out / "behaviour")["meta"]["info"].get("reach", {})
    return {"reach": reach, "reach_note": describe_reach(reach)}


def known_danger(task: str, out: Path) -> Ruler | None:
    """What is possible on a task when the danger is known: the rows of `rci reference` in the folder that one works in.

    They are copied to the run, whose report goes on showing them; None where there are none.
    """
    from rci.pipeline.results.known_danger import known_rows, known_ruler, rows_file

    kept = out / "reference.json"
    rows = known_rows(rows_file(task)) or known_rows(kept)
    if rows:
        write_json(kept, rows)
    return known_ruler(rows)


def method_result(
    out: Path, members: list[Entry], scores: dict[Entry, Scores], measure: Ruler | None = None
) -> MethodResult:
    """One method at one budget, over its seeds, with the statistics that the report shows."""
    from rci.data.risk.budgets import limits
    from rci.evaluation.stats import clopper_pearson
    from rci.pipeline.results.known_danger import shares
    from rci.reporting.run.contents import MethodResult

    first = members[0]
    mine = tuple(scores[entry] for entry in members)
    policies = [store.read_manifest(out / "policies" / entry.name)["meta"]["info"] for entry in members]
    named = policies[0].get("channels", ())
    bounds = limits(first.budget, named)
    unlimited = all(limit == math.inf for limit in bounds)
    # Limits of channels do not bound all violations together, and a percentile is not a share of episodes.
    share = math.inf if unlimited else None if named or isinstance(bounds[0], str) else bounds[0]
    blind = [scores[entry] for entry in scores if entry.method == "reward-only"]
    possible, way = shares(
        measure, *([(s.mean_return, s.violation_rate) for s in part] for part in (mine, blind))
    )
    return MethodResult(
        method=first.method,
        budget=share,
        asked=str(first.budget),
        threshold=None if named else float(np.mean([float(info["threshold"]) for info in policies])),
        scores=mine,
        violation_interval=clopper_pearson(sum(int(s.violated.sum()) for s in mine), sum(map(len, mine))),
        seed_intervals=tuple(clopper_pearson(int(s.violated.sum()), len(s)) for s in mine),
        rollouts=store.read(out / "rollouts" / first.name, "episodes"),
        multipliers=() if named else tuple(float(i["multiplier"]) for i in policies if "multiplier" in i),
        contrast=contrast(blind, mine, first.method),
        channels=channel_results(first, mine, policies),
        possible=possible,
        share_of_way=way,
    )


def channel_results(
    entry: Entry, scores: Sequence[Scores], policies: Sequence[dict[str, Any]]
) -> tuple[ChannelResult, ...]:
    """What became of each kind of danger; nothing where the policies know but one."""
    from rci.data.risk.budgets import limits
    from rci.evaluation.stats import clopper_pearson
    from rci.reporting.run.contents import ChannelResult

    names = policies[0].get("channels", ())
    if not all(name in score.info.get("channel_violation_rate", {}) for name in names for score in scores):
        return ()
    results = []
    for name, limit in zip(names, limits(entry.budget, names)):
        episodes = [len(score) for score in scores]
        rates = [score.info["channel_violation_rate"][name] for score in scores]
        counts = [round(rate * count) for rate, count in zip(rates, episodes)]
        results.append(
            ChannelResult(
                channel=name,
                budget=None if isinstance(limit, str) else limit,
                asked=str(limit),
                threshold=float(np.mean([float(info["threshold"][name]) for info in policies])),
                multipliers=tuple(float(i["multiplier"][name]) for i in policies if "multiplier" in i),
                violation_rates=tuple(rates),
                violation_interval=clopper_pearson(sum(counts), sum(episodes)),
                seed_intervals=tuple(clopper_pearson(*pair) for pair in zip(counts, episodes)),
            )
        )
    return tuple(results)


def critic_maps(config: RunConfig, out: Path, task: Task) -> tuple[CriticMap, ...]:
    """What the cost critic of each method's first policy at its tightest budget expects over the task's probe.

    Policies without critics are left out. With channels it is the sum over them; the method that the report is about
    has a map of each channel as well.
    """
    if task.probe is None:
        return ()
    from rci.reporting.run.rows import main_method

    probe = task.probe()
    maps: list[CriticMap] = []
    for method in config.compare.methods:
        entry = first_policies(config, method)[0]
        policy = store.read(out / "policies" / entry.name, "policy")
        if "predicted_cost" not in policy.info:
            continue
        total, *channels = policy_critic_maps(policy, probe, method, str(entry.budget))
        maps += [total, *channels] if method == main_method(config.compare.methods) else [total]
    return tuple(maps)


def policy_critic_maps(policy: Policy, probe: Probe, method: str, budget: str) -> list[CriticMap]:
    """What the cost critic of a policy expects over a probe: the sum over channels, then each of them if there are."""
    from rci.learning import predict_values
    from rci.reporting.run.contents import CriticMap

    channels, (_, expected_cost) = policy.info.get("channels", ()), predict_values(policy, probe.obs)
    if not channels:
        return [CriticMap(method, budget, expected_cost)]
    by_channel = [CriticMap(method, budget, expected_cost[..., k], name) for k, name in enumerate(channels)]
    return [CriticMap(method, budget, expected_cost.sum(axis=-1)), *by_channel]


def field_maps(config: RunConfig, out: Path, task: Task) -> tuple[FieldMap, ...]:
    """Where the main method's first policies push over the task's probe, from a loose budget to a tight one.

    What knows no budget comes first; policies without critics are left out.
    """
    probe = None if task.probe is None else task.probe()
    if probe is None or probe.arrow is None:
        return ()
    policies = {entry: store.read(out / "policies" / entry.name, "policy") for entry in field_entries(config)}
    return tuple(
        policy_field_map(policy, probe, entry.method, str(entry.budget))
        for entry, policy in policies.items()
        if "predicted_cost" in policy.info
    )


def policy_field_map(policy: Policy, probe: Probe, method: str, budget: str) -> FieldMap:
    """Where a policy pushes over a probe whose actions are arrows, and what it expects to gain there.

    The action at a point is the one that the values are of: both have one seed.
    """
    from rci.learning import predict_values, restore_policy
    from rci.reporting.run.contents import FieldMap

    if probe.arrow is None:
        raise RciError("the actions of this task are not arrows on its map, so it has no vector field.")
    acting = restore_policy(policy)
    action = acting.act(probe.obs.reshape(-1, *probe.obs.shape[2:]))
    expected_return, expected_cost = predict_values(acting, probe.obs)
    price = acting.info["reward_unit"] * _price(acting.info.get("multiplier"), expected_cost)
    return FieldMap(
        method=method,
        budget=budget,
        arrow=np.asarray(probe.arrow(action.reshape(*expected_return.shape, -1))),
        value=expected_return - price,
    )


def _price(multiplier: float | dict[str, float] | None, expected_cost: Array) -> Array | float:
    """What the expected cost is worth, in units of reward: multiplier * cost, summed over channels."""
    if multiplier is None:  # a method that prices nothing
        return 0.0
    if isinstance(multiplier, dict):
        return np.asarray(expected_cost @ np.array(list(multiplier.values())))
    return np.asarray(multiplier * expected_cost)


def field_entries(config: RunConfig) -> list[Entry]:
    """Reward-only, and the method that the report is about at its loosest, a middle and its tightest budget."""
    from rci.reporting.run.rows import main_method

    limited = [method for method in config.compare.methods if method != "reward-only"]
    chosen = first_policies(config, "reward-only")
    if limited:
        by_budget = first_policies(config, main_method(limited) or limited[-1])[::-1]
        # a dict, as they are the same one twice if there are few
        chosen += dict.fromkeys((by_budget[0], by_budget[len(by_budget) // 2], by_budget[-1]))
    return chosen


def first_policies(config: RunConfig, method: str) -> list[Entry]:
    """The policies of a method's first seed, from its tightest budget to its loosest; none if it is not compared."""
    from rci.reporting.numbers import tightness

    policies = [entry for entry in entries(config) if entry.method == method and entry.seed == 0]
    return sorted(policies, key=lambda entry: tightness(entry.budget))


def read_demonstrators(config: RunConfig, out: Path) -> dict[str, Any] | None:
    """How the demonstrators of this run were trained; None if its recipe has none."""
    from rci.collection.recipe import needs_demonstrators

    if not needs_demonstrators(config.task, config.collect.recipe):
        return None
    return store.read(out / "demonstrators", "demonstrators").info


def contrast(base: Sequence[Scores], mine: Sequence[Scores], method: str) -> Contrast | None:
    """A method against reward-only; nothing if that was not run."""
    from rci.evaluation.stats import bootstrap_ratio, welch_t_test
    from rci.reporting.run.contents import Contrast

    if not base or method == "reward-only":
        return None
    ratio = bootstrap_ratio([s.violated for s in mine], [s.violated for s in base], seed=0)
    if len(mine) < 2:
        return Contrast("reward-only", *ratio)
    t, _, p = welch_t_test([s.mean_return for s in mine], [s.mean_return for s in base])
    return Contrast("reward-only", *ratio, t, p)


def rebuild_report(out: Path) -> Path:
    """Write the report of a finished run again."""
    config, command = read_config(out)
    return write_summary(config, out, command)


def read_config(out: Path) -> tuple[RunConfig, str]:
    """The settings of the run in a folder, and the command that started it."""
    path = out / "config.json"
    if not path.is_file():
        raise RciError(f"{out} is not the folder of a run: it has no config.json.")
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        settings, command = saved["settings"], str(saved["command"])
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise RciError(f"{path} is damaged: {error}.") from None
    return build(RunConfig, settings, str(path)), command


def read_costs(config: RunConfig, out: Path) -> dict[str, StepCosts]:
    """The step costs of the first seed, by method of the comparison."""
    methods = [method for method in config.compare.methods if method != "reward-only"]
    return {method: store.read(out / "costs" / f"{cost_name(method)}-seed0", "costs") for method in methods}


def result_rows(config: RunConfig, scores: dict[Entry, Scores]) -> list[dict[str, Any]]:
    """One row of plain numbers per evaluated policy."""
    from rci.evaluation.stats import normalised_returns

    normalised = normalised_returns(np.array([s.mean_return for s in scores.values()]))
    return [
        {
            "experiment": "run",
            "task": config.task,
            "dataset": config.collect.recipe,
            "noise": config.label.noise,
            "method": entry.method,
            "learner": config.learn["method"],
            "budget": str(entry.budget),
            "seed": entry_seed(config, entry),
            "selected": False,  # every policy is reported; none was chosen by its scores
            "episodes": len(score),
            "violation_rate": score.violation_rate,
            "mean_return": score.mean_return,
            "mean_return_until_stop": score.mean_return_until_stop,
            "return_norm": float(norm),
            **{
                name: score.info[name]
                for name in ("channel_violation_rate", "channel_any_rate")
                if name in score.info
            },
        }
        for (entry, score), norm in zip(scores.items(), normalised)
    ]


def stage_seconds(timings: dict[str, float]) -> dict[str, float]:
    """Seconds per stage, summed over its jobs."""
    total: dict[str, float] = {}
    for name, seconds in timings.items():
        stage = {"costs": "redistribute"}.get(name.split("-")[0], name.split("-")[0])
        total[stage] = total.get(stage, 0.0) + seconds
    return total

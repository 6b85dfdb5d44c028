"""What an assessment does, as jobs: from labeled episodes to estimates of policies and a monitor."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from rci.data.types import Episodes, Labels
from rci.pipeline.assessing.parts import PARTS, runs_of, split_runs
from rci.pipeline.assessing.settings import AssessConfig
from rci.pipeline.companions import labels_of
from rci.pipeline.jobs import Job

PROMISES = (0.05, 0.1, 0.2, 0.5)  # false-alarm rates that a monitor may be given
FREE = "no budget"  # the name of the policy that none holds back


class Part(NamedTuple):
    """Where the episodes and labels of a part are."""

    episodes: Path
    labels: Path

    def inputs(self) -> dict[str, Path]:
        return {"episodes": self.episodes, "labels": self.labels}


def part_of(out: Path, name: str) -> Part:
    """Where a part is written."""
    return Part(out / name, labels_of(out / name))


def policy_names(config: AssessConfig, budget: float) -> dict[str, float]:
    """The policies that are made: their names, from the strictest on, and their budgets."""
    budgets = sorted({*config.budgets, budget})
    return {**{f"{100 * one:g}%": one for one in budgets}, FREE: math.inf}


def folder_of(name: str) -> str:
    """The folder of a policy, by its name."""
    return "none" if name == FREE else name.removesuffix("%")


def plan(
    config: AssessConfig, budget: float, episodes: Path, labels: Path, out: Path, false_alarms: float
) -> list[Job]:
    """All jobs after the import, in the order in which they are best done."""
    seed, logged = config.seed, {"episodes": episodes, "labels": labels}
    shares = {"selection": config.split.selection, "held_out": config.split.held_out}
    jobs = [Job(f"{name} runs", "part", {"part": name, **shares}, seed, logged, out / name) for name in PARTS]
    fit, selection = part_of(out, "fit"), part_of(out, "selection")
    label_costs, step_costs = out / "label-costs", out / "step-costs"
    behaviour, training = out / "behaviour", out / "training"
    jobs += [
        Job("behaviour", "behaviour", config.behaviour, seed, fit.inputs(), behaviour, ("fit runs",)),
        Job("step costs", "redistribute", config.redistribute, seed, fit.inputs(), step_costs, ("fit runs",)),
        Job(
            "label costs",
            "redistribute",
            {"method": "sparse"},
            seed,
            fit.inputs(),
            label_costs,
            ("fit runs",),
        ),
    ]
    learn = {**fit.inputs(), "costs": label_costs, "behaviour": behaviour}
    settings = {**config.learn, "budget": "inf"}
    jobs.append(Job("training", "learn", settings, seed, learn, training, ("behaviour", "label costs")))
    policies = {name: out / "policies" / folder_of(name) for name in policy_names(config, budget)}
    for name, limit in policy_names(config, budget).items():
        inputs = {"policy": training}
        jobs.append(
            Job(
                f"policy {name}", "limit", {"budget": str(limit)}, seed, inputs, policies[name], ("training",)
            )
        )
    watched = {**selection.inputs(), "costs": step_costs}
    needs = ("step costs", "selection runs")
    jobs.append(
        Job("monitor", "monitor", {"false_alarm_rate": false_alarms}, seed, watched, out / "monitor", needs)
    )
    strange = {**part_of(out, PARTS[-1]).inputs(), "costs": step_costs}
    needs = ("step costs", f"{PARTS[-1]} runs")
    jobs.append(Job("held-out costs", "transfer", {}, seed, strange, out / "held-out-costs", needs))
    for part in PARTS[1:]:
        jobs.append(_estimate(config, part, logged, policies, out))
    return jobs


def _estimate(
    config: AssessConfig, part: str, logged: dict[str, Path], policies: dict[str, Path], out: Path
) -> Job:
    """Estimate every policy, by trials that begin as the runs of a part do.

    The choice is made without the held-out runs: what it rests on has not seen them at all.
    """
    settings = {
        "part": part,
        "policies": list(policies),
        "selection": config.split.selection,
        "held_out": config.split.held_out,
        "level": config.level,
        **config.estimate,
    }
    inputs = {**logged, **{f"policy {name}": place for name, place in policies.items()}}
    needs = tuple(f"policy {name}" for name in policies)
    return Job(
        f"estimates, {part} runs", "estimate", settings, config.seed, inputs, out / f"estimates-{part}", needs
    )


def promised_rate(config: AssessConfig, episodes: Episodes, labels: Labels) -> float:
    """The false-alarm rate that the monitor is given: the one asked for, or the lowest that can be promised."""
    if config.monitor.false_alarms is not None:
        return config.monitor.false_alarms
    shares = {"selection": config.split.selection, "held_out": config.split.held_out}
    chosen = split_runs(runs_of(episodes), labels.stopped, seed=config.seed, **shares)["selection"]
    safe = int((~labels.stopped[chosen]).sum())
    return next((rate for rate in PROMISES if rate * (safe + 1) >= 1), PROMISES[-1])

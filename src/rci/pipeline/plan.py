"""What a run does, as jobs: from recorded episodes to the tests of every policy of the comparison."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.errors import RciError, unknown_method, unknown_name
from rci.data.extras import require_modules
from rci.data.risk.budgets import in_words
from rci.pipeline.config import RunConfig
from rci.pipeline.jobs import Job

OF_COMPARISONS = {
    "rci": "step costs by the redistributor of [redistribute]",
    "reward-only": "no costs and no budget: what the logs teach of the reward alone",
}
TITLES = {  # of jobs that serve every policy
    "demonstrators": "train demonstrators",
    "collect": "record episodes",
    "label": "label episodes",
    "behaviour": "fit the behaviour model",
}
WORDS = {"evaluate": "test", "rollouts": "film"}  # stages to people
SEED_STRIDE = 1000  # seeds of a comparison per seed of a run, so that two runs never share one


class Entry(NamedTuple):
    """One policy of the comparison."""

    method: str
    budget: float | str  # by channel: proximity=0.05,road=0.01
    seed: int

    @property
    def name(self) -> str:
        return f"{self.method}-{self.budget}-seed{self.seed}"


def check_config(config: RunConfig) -> None:
    """Find mistakes in the settings before any work is done."""
    from rci.collection import ppo
    from rci.collection.recipe import needs_demonstrators
    from rci.data.options import build
    from rci.data.risk.budgets import limits, parse_budget, refuse_percentiles
    from rci.labeling import NOISES
    from rci.learning import LEARNERS, behaviour, parse_options, refuse_few_proposals
    from rci.learning.budget import allowed_sum
    from rci.redistribution import REDISTRIBUTORS
    from rci.redistribution import parse_options as parse_redistributor
    from rci.redistribution.base import made
    from rci.tasks import get

    require_modules(get(config.task).packages, f"the task {config.task!r}")
    trained = needs_demonstrators(config.task, config.collect.recipe)
    build(ppo.Config, config.ppo, "ppo")
    if config.label.noise not in (*NOISES, "clean"):
        raise unknown_name("label noise", config.label.noise, [*NOISES, "clean"])
    budgets = [str(parse_budget(budget)) for budget in config.compare.budgets]
    allowed = [limit for budget in budgets for limit in limits(budget, tuple(get(config.task).channels))]
    numbers = [limit for limit in allowed if not isinstance(limit, str)]
    learner = dict(config.learn)
    chosen = learner.pop("method")
    shape, _, _ = parse_options(chosen, learner)
    audits = (
        getattr(shape, "estimate", "") == "audited"
    )  # then a number is compared with labels, not with costs
    if LEARNERS[chosen].settle is not None:
        refuse_percentiles(repr(chosen), allowed)
    judged = audits or LEARNERS[chosen].settle is not None  # by the labels, whatever the costs are
    for method in config.compare.methods:
        if method not in (*OF_COMPARISONS, *REDISTRIBUTORS):
            makers = {name: one.make for name, one in REDISTRIBUTORS.items()}
            raise unknown_method("method of the comparison", method, makers, OF_COMPARISONS)
        options = redistributor_settings(config, method)
        name = options.pop("method")
        settings = parse_redistributor(name, options)
        unit = made(REDISTRIBUTORS[name].make, settings.config).unit
        for limit in numbers if method != "reward-only" and not judged else ():
            allowed_sum(limit, unit)  # refuses a number for costs in another unit
    limited = [method for method in config.compare.methods if method != "reward-only"]
    if limited and not LEARNERS[chosen].constrained and any(limit != math.inf for limit in allowed):
        raise RciError(
            f"the learner {chosen!r} knows no budget, so the budgets {', '.join(budgets)} would be ignored; set "
            "compare.budgets to [inf], or choose a learner that keeps budgets."
        )
    model = build(behaviour.Config, config.behaviour, "behaviour")
    if LEARNERS[chosen].proposes:
        refuse_few_proposals(model.proposals, shape)
    for name, values in (("methods", list(config.compare.methods)), ("budgets", budgets)):
        if not values:
            raise RciError(f"compare.{name} is empty: there is nothing to compare.")
        if len(set(values)) < len(values):
            raise RciError(f"compare.{name} names something twice: {', '.join(values)}.")
    if trained and "oracle" in config.compare.methods:
        raise RciError(
            f"'oracle' needs an exact risk, which is not known for what the recipe {config.collect.recipe!r} records."
        )
    for section, name in (("collect", "episodes"), ("evaluate", "episodes"), ("evaluate", "rollouts")):
        if getattr(getattr(config, section), name) < 1:
            raise RciError(f"{section}.{name} must be at least 1.")
    if config.compare.seeds > SEED_STRIDE:
        raise RciError(f"compare.seeds must be at most {SEED_STRIDE}, got {config.compare.seeds}.")


def redistributor_settings(config: RunConfig, method: str) -> dict[str, Any]:
    """The settings of the redistributor behind a method of the comparison."""
    return dict(config.redistribute) if method == "rci" else {"method": cost_name(method)}


def entries(config: RunConfig) -> list[Entry]:
    """Every policy to be trained. Reward-only has one budget, infinity."""
    from rci.data.risk.budgets import parse_budget

    budgets = [parse_budget(budget) for budget in config.compare.budgets]
    return [
        Entry(method, budget, seed)
        for method in config.compare.methods
        for budget in ([math.inf] if method == "reward-only" else budgets)
        for seed in range(config.compare.seeds)
    ]


def cost_name(method: str) -> str:
    """Whose step costs a method trains on. Reward-only sees sparse ones, and ignores them."""
    return "sparse" if method == "reward-only" else method


def plan(config: RunConfig, out: Path) -> list[Job]:
    """All jobs of a run, in the order in which they are best done."""
    from rci.collection.recipe import needs_demonstrators
    from rci.learning import LEARNERS

    episodes, labels = out / "episodes", out / "labels"
    logged = {"episodes": episodes, "labels": labels}
    recording = {
        "task_name": config.task,
        "episodes": config.collect.episodes,
        "recipe": config.collect.recipe,
    }
    rule = {"rule": config.task, "noise": config.label.noise}
    jobs, demonstrators = dict[str, Job](), dict[str, Path]()
    if needs_demonstrators(config.task, config.collect.recipe):
        demonstrators = {"demonstrators": out / "demonstrators"}
        training = {"task_name": config.task, **config.ppo}
        jobs["demonstrators"] = Job(
            "demonstrators", "demonstrators", training, config.seed, {}, demonstrators["demonstrators"]
        )
    jobs |= {
        "collect": Job(
            "collect", "collect", recording, config.seed, demonstrators, episodes, tuple(demonstrators)
        ),
        "label": Job("label", "label", rule, config.seed, {"episodes": episodes}, labels, ("collect",)),
    }
    model = dict[str, Path]()
    if LEARNERS[config.learn["method"]].proposes:
        model = {"behaviour": out / "behaviour"}
        jobs["behaviour"] = Job(
            "behaviour", "behaviour", config.behaviour, config.seed, logged, model["behaviour"], ("label",)
        )
    for entry in entries(config):
        name = f"costs-{cost_name(entry.method)}-seed{entry.seed}"
        settings = redistributor_settings(config, entry.method)
        output = out / "costs" / name.removeprefix("costs-")
        title, seed = f"step costs by {settings['method']}{seed_of(entry, config)}", entry_seed(config, entry)
        jobs[name] = Job(name, "redistribute", settings, seed, logged, output, ("label",), title=title)
    for entry in entries(config):
        for job in _jobs_of(entry, config, out, {**logged, **model}):
            jobs[job.name] = job
    return [replace(job, title=job.title or TITLES[job.name]) for job in jobs.values()]


def seed_of(entry: Entry, config: RunConfig) -> str:
    """The seed of a policy in the title of its jobs, where there are several."""
    return f", seed {entry.seed}" if config.compare.seeds > 1 else ""


def _jobs_of(entry: Entry, config: RunConfig, out: Path, inputs: dict[str, Path]) -> list[Job]:
    """Train one policy, test it, and record a few of its episodes. Every policy is tested on episodes of its own."""
    from rci.learning import LEARNERS

    costs = f"{cost_name(entry.method)}-seed{entry.seed}"
    policy, seed = out / "policies" / entry.name, entry_seed(config, entry)
    needs = (f"costs-{costs}", *({"behaviour"} & set(inputs)))
    learn, inputs = f"learn-{entry.name}", {**inputs, "costs": out / "costs" / costs}
    words = f"{entry.method}, {in_words(entry.budget)}{seed_of(entry, config)}"
    if LEARNERS[config.learn["method"]].settle is None:
        settings = {**config.learn, "budget": str(entry.budget)}
        jobs = [Job(learn, "learn", settings, seed, inputs, policy, needs, title=f"learn {words}")]
    else:  # one training serves every budget, and reward-only as well
        name, whole = f"train-{costs}", out / "trainings" / costs
        limit, title = {"budget": str(entry.budget)}, f"learn from {cost_name(entry.method)} costs"
        unlimited = {**config.learn, "budget": "inf"}
        jobs = [
            Job(name, "learn", unlimited, seed, inputs, whole, needs, title=title + seed_of(entry, config)),
            Job(learn, "limit", limit, seed, {"policy": whole}, policy, (name,), title=f"limit {words}"),
        ]
    stages = [("evaluate", "scores", config.evaluate.episodes)]
    if entry.seed == 0:
        stages.append(("rollouts", "rollouts", config.evaluate.rollouts))
    for stage, folder, episodes in stages:
        test = {"task": config.task, "episodes": episodes}
        output = out / folder / entry.name
        name, title = f"{stage}-{entry.name}", f"{WORDS[stage]} {words}"
        jobs.append(Job(name, stage, test, seed, {"policy": policy}, output, (learn,), title=title))
    return jobs


def entry_seed(config: RunConfig, entry: Entry) -> int:
    """The seed with which a policy of the comparison is fitted, trained and tested."""
    return config.seed * SEED_STRIDE + entry.seed

"""The experiments, as one declarative list: what is compared on which logs, and how much of it.

An experiment is a product: logs x methods x learners x budgets x seeds x policies. `Scale` says how large all is:
`full` is the study, `smoke` the same list made small enough for ten minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Table = Mapping[str, Any]
LEARNER = "bcq-lagrangian"


class Method(NamedTuple):
    """What a method trains on, the settings of its redistributor, and what it changes in the default learner."""

    redistribute: dict[str, Any]
    learn: Mapping[str, Any] = MappingProxyType({})


# Each with the setting that was best for it among the ingredients; `rci-literal` is the paper's to the letter.
METHODS: dict[str, Method] = {
    "reward-only": Method({"method": "sparse"}),  # which it ignores
    "sparse": Method({"method": "sparse"}, {"draws": "steps"}),
    # Costs that are never negative and do not sum to the label make an early stop the cheapest drive of all, because a
    # stop ends them. Conserved they do not; the paper's, as they are, are `hazard-literal`.
    "hazard": Method({"method": "hazard", "conserve": True}),
    "hazard-literal": Method({"method": "hazard"}),
    "rci": Method({"method": "potential"}, {"cost_discount": 0.9}),
    "rci-literal": Method({"method": "rudder"}),
    "rci-prefix": Method({"method": "rudder", "loss": "prefix", "start": "prior"}),
    "traces": Method({"method": "traces"}),
    "uniform": Method({"method": "uniform"}),
}
# What was tried for `rci`, and for sparse costs where it applies to them.
STEPS_ALIKE, SHORT, CAUTIOUS = (
    {"draws": "steps"},
    {"cost_discount": 0.9},
    {"critics": 4, "cost_pessimism": 1.0},
)
LITERAL, PREFIX = METHODS["rci-literal"].redistribute, METHODS["rci-prefix"].redistribute
INGREDIENTS: dict[str, Method] = {
    "sparse": METHODS["sparse"],
    "sparse, all episodes alike": Method({"method": "sparse"}),
    "sparse, horizon 10": Method({"method": "sparse"}, SHORT),
    "sparse, cautious": Method({"method": "sparse"}, CAUTIOUS),
    "potential": Method({"method": "potential"}),
    "potential, all steps alike": Method({"method": "potential"}, STEPS_ALIKE),
    "potential, horizon 10": Method({"method": "potential"}, SHORT),
    "potential, advantage": Method({"method": "potential"}, {"cost_discount": 0.0}),
    "whole episodes": Method(LITERAL),
    "whole episodes, horizon 10": Method(LITERAL, SHORT),
    "prefix, prior": Method(PREFIX),
    "prefix, distilled": Method({"method": "rudder", "loss": "prefix", "distil": True}),
    "hazard": METHODS["hazard"],
    "hazard-literal": METHODS["hazard-literal"],
    "traces": METHODS["traces"],
    "sparse, slow": Method({"method": "sparse"}, {"learning_rate": 3e-4}),
    "potential, slow": Method({"method": "potential"}, {"learning_rate": 3e-4}),
    "potential, cautious": Method({"method": "potential"}, CAUTIOUS),
    "potential, cross-fitted": Method({"method": "potential", "folds": 2}),
    "potential, never negative": Method({"method": "potential", "sign": "nonnegative"}),
}
METHODS |= INGREDIENTS
PERCENTILES = ("P10", "P20", "P30", "P40", "P50")
PROBABILITIES = ("0.05", "0.1", "0.2", "0.4")


class Logs(NamedTuple):
    """What is recorded, and who presses STOP."""

    task: str = "highway"
    recipe: str = "mixed"
    noise: str = "clean"
    share: float = 1.0  # of the episodes that the scale has

    def episodes(self, scale: Scale) -> int:
        """How many are recorded and labelled."""
        return max(scale.least_episodes, round(self.share * scale.episodes))


@dataclass(frozen=True)
class Experiment:
    """One question, and the policies whose numbers answer it."""

    name: str
    logs: tuple[Logs, ...]
    methods: tuple[str, ...]
    budgets: tuple[str, ...]
    learners: tuple[str, ...] = (LEARNER,)
    seeds: Literal["main", "ablation", "survey"] = "main"  # how many there are is a matter of scale
    policies: bool = False  # whether each configuration is trained several times, for one to be selected
    lengths: tuple[float, ...] = (
        1.0,
    )  # of training, as multiples of the scale's; a longer one goes on from a shorter
    seed: int = 0  # of the logs; a study of settings must not see those that are reported on
    drawn: bool = (
        False  # whether its policies are to be drawn, those of the first seed; it then has no numbers
    )


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    name: str
    episodes: int
    least_episodes: int
    seeds: Mapping[str, int]
    policies: int
    updates: int
    test_episodes: int
    selection_episodes: int
    budgets: int  # how many of an experiment's budgets are tried, spread over its list
    ppo: Mapping[str, Table]
    behaviour: Mapping[str, Table]
    learn: Mapping[str, Table]  # by task
    pace: Mapping[str, Table]  # by learner
    redistribute: Table = field(default_factory=dict)  # over the settings of every method that trains

    def chosen_budgets(self, experiment: Experiment) -> tuple[str, ...]:
        """The budgets that are tried, the tightest and the loosest always among them."""
        all_of_them, count = experiment.budgets, min(self.budgets, len(experiment.budgets))
        if experiment.drawn:  # every picture has its place
            return all_of_them
        if count == 1:
            return all_of_them[:1]
        return tuple(all_of_them[round(i * (len(all_of_them) - 1) / (count - 1))] for i in range(count))


HIGHWAY, DISC, FETCH, POINT = Logs("highway"), Logs("highway-disc"), Logs("fetch-reach"), Logs("point")
CORE = ("reward-only", "sparse", "hazard", "rci")
RIVALS = ("reward-only", "sparse", "hazard", "rci", "rci-literal", "traces", "uniform")
SHARES = (0.04, 0.1, 0.2, 1.0)  # 200, 500, 1,000 and 5,000 episodes

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "highway",
            (HIGHWAY,),
            CORE,
            PERCENTILES,
            policies=True,
        ),
        Experiment(
            "highway-disc",
            (DISC,),
            CORE,
            PERCENTILES,
            policies=True,
        ),
        Experiment(
            "calibration",
            (HIGHWAY, FETCH),
            RIVALS,
            PROBABILITIES,
        ),
        Experiment(
            "fetch-reach",
            (FETCH,),
            CORE,
            PERCENTILES,
            policies=True,
        ),
        Experiment(
            "composition",
            tuple(HIGHWAY._replace(recipe=recipe) for recipe in ("ppo", "random", "mixed")),
            CORE,
            ("0.1", "0.4"),
            seeds="ablation",
        ),
        Experiment(
            "label-noise",
            tuple(HIGHWAY._replace(noise=noise) for noise in ("clean", "noisy", "adversarial", "human")),
            CORE,
            ("0.1", "0.4"),
            seeds="ablation",
        ),
        Experiment(
            "label-efficiency",
            tuple(logs._replace(share=share) for logs in (HIGHWAY, FETCH, POINT) for share in SHARES),
            ("reward-only", "sparse", "hazard", "rci", "traces"),
            ("0.2",),
            seeds="survey",
            lengths=(0.5, 1.0, 2.0, 4.0),
        ),
        Experiment(
            "horizon",
            (HIGHWAY, Logs("highway-15hz")),
            ("reward-only", "sparse", "hazard", "rci", "traces"),
            ("0.1", "0.4"),
            seeds="ablation",
        ),
        Experiment(
            "grid",
            (HIGHWAY,),
            ("sparse", "hazard", "rci", "rci-literal"),
            ("P30",),
            learners=("bcq-lagrangian", "bear-lagrangian", "cpq", "cdt", "coptidice", "bc-safe"),
            seeds="ablation",
        ),
        Experiment(
            "highway-two",
            (Logs("highway-two"),),
            ("reward-only", "sparse", "rci"),
            ("0.1", "0.4"),
            seeds="ablation",
        ),
        Experiment(
            "heatmaps",
            (HIGHWAY,),
            ("sparse", "hazard", "rci", "rci-literal"),
            ("P10", "P30"),
            drawn=True,
        ),
        Experiment(
            "vector-fields",
            (FETCH,),
            ("rci",),
            ("0.05", "0.2", "0.4"),
            drawn=True,
        ),
        Experiment(
            "ingredients",
            (HIGHWAY,),
            ("reward-only", *INGREDIENTS),
            ("0.1", "0.4"),
            seeds="survey",
            seed=7,
        ),
    )
}

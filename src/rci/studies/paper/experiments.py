"""The experiments, as one declarative list: what is compared on which logs, and how much of it.

Four questions: is the paper's claim true as it stands, does redistribution pay under the best learner, when does it
pay, and how far is the best from what is possible? What answers none of them is not in the list.

An experiment is a product: logs x methods x budgets x lengths x seeds x policies. A seed is one of logs as well as of
training: each has a recording of its own. `Scale` says how large all is: `full` is the study, `smoke` the same list
made small enough for ten minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Table = Mapping[str, Any]
PAPERS, OURS = "bcq-lagrangian", "feasible"  # learners
REWARD_ONLY = "reward-only"
# Said here, so that a study can be planned without loading what trains; tests hold both against it.
UNTRAINED = ("sparse", "uniform")  # redistributors
DISCOUNT = 0.99  # of costs, where a learner has no discount of its own


class Method(NamedTuple):
    """The settings of a redistributor, and what each learner does with what it makes."""

    redistribute: dict[str, Any]
    feasible: Mapping[str, Any] = MappingProxyType({})
    papers: Mapping[str, Any] = MappingProxyType({})

    @property
    def as_labelled(self) -> bool:
        """Whether the cost of an episode stands at its stop."""
        return self.redistribute == {"method": "sparse"}

    def changes(self, learner: str) -> Mapping[str, Any]:
        """In the settings of a learner."""
        return self.feasible if learner == OURS else self.papers


# What was charged so far draws the hazard of the labels; what is never negative is read as a hazard itself.
GUIDED = {"guide": "charged"}
SOFT = {"head": "hazard"}
PREFIX = {"method": "rudder", "loss": "prefix"}
# A method is called by what it is; the paper's is `rudder`. Settings and uses were chosen on other logs.
METHODS: dict[str, Method] = {
    REWARD_ONLY: Method({"method": "sparse"}),  # which it ignores
    "sparse": Method({"method": "sparse"}),
    "sparse-outcome": Method({"method": "sparse"}, {"guide": "outcome"}),  # Monte Carlo, half of the target
    "sparse-10-steps": Method({"method": "sparse"}, papers={"cost_steps": 10}),
    "sparse-all-steps": Method({"method": "sparse"}, papers={"cost_steps": 0}),  # Monte Carlo
    "sparse-hinge": Method({"method": "sparse"}, papers={"pricing": "hinge"}),
    "hazard": Method({"method": "hazard"}),
    "rudder": Method({"method": "rudder"}),
    "rudder-prefix": Method(PREFIX),
    "potential": Method({"method": "potential"}),
    "transformer": Method({"method": "transformer"}),
    "traces": Method({"method": "traces"}),
    "rrd": Method({"method": "rrd"}),
    "grd": Method({"method": "grd"}),
    "uniform": Method({"method": "uniform"}),
    "rudder-prefix-guide": Method(PREFIX, GUIDED),
    "rudder-prefix-soft": Method({**PREFIX, "sign": "nonnegative"}, SOFT),
}
PERCENTILES = ("P10", "P30", "P50")
STRICT_AND_LOOSE = ("P10", "P50")  # the ends of the same range, where few policies have to do
THRESHOLDS = ("T3", "T5", "T7")  # of the ten that a training of `feasible` comes with; see `Policy.at_rung`
NOISES = ("noisy", "adversarial", "human", "late")


class Logs(NamedTuple):
    """What is recorded, and who presses STOP."""

    task: str = "highway"
    recipe: str = "mixed"
    noise: str = "clean"
    share: float = 1.0  # of the episodes that the scale has

    @property
    def percentiles_of_labels_coincide(self) -> bool:
        """Whether fewer than half of the episodes are stopped, so that P10, P30 and P50 of the labels are all 0."""
        return self.recipe != "ppo" and self.task in ("highway", "fetch-reach")

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
    learner: str = PAPERS
    seeds: Literal["main", "ablation"] = "main"  # how many there are is a matter of scale
    policies: bool = False  # whether each configuration is trained several times, for one to be selected
    lengths: tuple[float, ...] = (1.0,)  # of training, as multiples of the scale's; all are one training
    drawn: bool = (
        False  # whether its policies are to be drawn, those of the first seed; it has no numbers then
    )


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    name: str
    episodes: int
    least_episodes: int
    seeds: Mapping[str, int]
    policies: int
    updates: Mapping[str, int]  # by learner
    test_episodes: Mapping[str, int]  # as seeds
    selection_episodes: int
    budgets: int  # how many of an experiment's budgets are tried, spread over its list
    ppo: Mapping[str, Table]  # by task
    behaviour: Mapping[str, Mapping[str, Table]]  # by learner and task
    learn: Mapping[str, Mapping[str, Table]]  # by learner and task
    redistribute: Table = field(default_factory=dict)  # over the settings of every method that trains

    def chosen_budgets(self, experiment: Experiment, logs: Logs, method: str) -> tuple[str, ...]:
        """The budgets that are tried, the tightest and the loosest always among them."""
        if method == REWARD_ONLY:
            return ("inf",)
        every, count = experiment.budgets, min(self.budgets, len(experiment.budgets))
        if every[0].startswith("P") and logs.percentiles_of_labels_coincide and METHODS[method].as_labelled:
            return every[:1]
        if experiment.drawn:  # every picture has its place
            return every
        if count == 1:
            return every[:1]
        return tuple(every[round(i * (len(every) - 1) / (count - 1))] for i in range(count))


HIGHWAY, FETCH, POINT = Logs("highway"), Logs("fetch-reach"), Logs("point")
CORE = (REWARD_ONLY, "sparse", "hazard", "rudder")
CONTROLS = ("sparse-10-steps", "sparse-all-steps", "sparse-hinge")  # of the paper's learner
EVERY = tuple(name for name in METHODS if name not in CONTROLS)
SOME = (
    REWARD_ONLY,
    "sparse",
    "hazard",
    "rudder",
    "rudder-prefix",
    "potential",
    "uniform",
    "rudder-prefix-guide",
)
PAIR = (REWARD_ONLY, "sparse", "rudder-prefix-guide")
SHORT_AND_LONG = (0.25, 1.0)
FEW = 0.2  # of the episodes: 1,000

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("highway", (HIGHWAY,), CORE, PERCENTILES, policies=True),
        Experiment("best-learner", (HIGHWAY,), EVERY, THRESHOLDS, OURS),
        Experiment("fetch-reach", (FETCH,), CORE, PERCENTILES, policies=True),
        Experiment("best-learner-arm", (FETCH,), SOME, THRESHOLDS, OURS),
        Experiment(
            "when-it-pays",
            tuple(HIGHWAY._replace(share=share) for share in (0.02, 0.06, FEW, 1.0)),
            PAIR,
            THRESHOLDS,
            OURS,
            seeds="ablation",
            lengths=SHORT_AND_LONG,
        ),
        Experiment(
            "imperfect-labels",
            tuple(HIGHWAY._replace(share=FEW, noise=noise) for noise in NOISES),
            PAIR,
            THRESHOLDS,
            OURS,
            seeds="ablation",
            lengths=SHORT_AND_LONG,
        ),
        Experiment(
            "horizon",
            (Logs("highway-15hz", share=FEW), Logs("fetch-reach-fine", share=FEW)),
            PAIR,
            THRESHOLDS,
            OURS,
            seeds="ablation",
            lengths=SHORT_AND_LONG,
        ),
        Experiment(
            "readings", (Logs("highway-open"), Logs("highway-disc")), CORE, STRICT_AND_LOOSE, seeds="ablation"
        ),
        Experiment(
            "composition",
            tuple(HIGHWAY._replace(recipe=recipe) for recipe in ("ppo", "random", "mixed")),
            CORE,
            STRICT_AND_LOOSE,
            seeds="ablation",
        ),
        Experiment(
            "label-noise",
            tuple(HIGHWAY._replace(noise=noise) for noise in ("noisy", "adversarial")),
            CORE,
            STRICT_AND_LOOSE,
            seeds="ablation",
        ),
        Experiment(
            "controls", (HIGHWAY,), (REWARD_ONLY, "sparse", *CONTROLS), ("0.1", "0.4"), seeds="ablation"
        ),
        Experiment("heatmaps", (HIGHWAY,), ("sparse", "hazard", "rudder"), ("P10", "P30"), drawn=True),
        Experiment("vector-fields", (FETCH,), ("rudder",), PERCENTILES, drawn=True),
    )
}

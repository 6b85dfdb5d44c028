"""The learners by name, and their settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_type_hints

from rci.data.errors import RciError, unknown_method
from rci.data.options import build_parts, require_positive
from rci.learning.base import Method
from rci.learning.demonstrations import Emphasis
from rci.learning.methods import bc, bc_safe, bcq_lagrangian, bear_lagrangian, cdt, coptidice, cpq, feasible

LEARNERS: dict[str, Method] = {
    "bc": Method(bc.make, bc.Config, bc.Hyper, proposes=False, constrained=False, weighs=True),
    "bc-safe": Method(bc_safe.make, bc.Config, bc_safe.Hyper, proposes=False, imitates=True),
    "bcq-lagrangian": Method(bcq_lagrangian.make, bcq_lagrangian.Config, bcq_lagrangian.Hyper),
    "bear-lagrangian": Method(bear_lagrangian.make, bear_lagrangian.Config, bear_lagrangian.Hyper),
    "coptidice": Method(coptidice.make, coptidice.Config, coptidice.Hyper, proposes=False),
    "cpq": Method(cpq.make, cpq.Config, cpq.Hyper),
    "cdt": Method(cdt.make, cdt.Config, cdt.Hyper, proposes=False, imitates=True),
    "feasible": Method(feasible.make, feasible.Config, feasible.Hyper, weighs=True, settle=feasible.settle),
}


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how often to keep a checkpoint where there is a folder for one."""

    updates: int = 10_000
    checkpoint_every: int = 5_000

    def __post_init__(self) -> None:
        require_positive(self, "updates", "checkpoint_every")


@dataclass(frozen=True)
class WeightedSchedule(Emphasis, Schedule):
    """The same for a learner that draws steps by weights."""

    def __post_init__(self) -> None:
        Schedule.__post_init__(self)
        Emphasis.__post_init__(self)


def learner_called(method: str) -> Method:
    """The learner of a name."""
    if method not in LEARNERS:
        raise unknown_method("learner", method, {name: one.make for name, one in LEARNERS.items()})
    return LEARNERS[method]


def parse_options(method: str, options: dict[str, Any]) -> tuple[Any, Any, Schedule]:
    """Check the name of a learner and its settings without running it."""
    entry = learner_called(method)
    weights = get_type_hints(Emphasis)
    for name in options if not entry.weighs else ():
        if name in weights:
            weighing = ", ".join(other for other, each in LEARNERS.items() if each.weighs)
            raise RciError(
                f"{method!r} draws all steps alike, so {name!r} has no meaning; {weighing} weigh them."
            )
    for name in {"threshold", "audited"} & set(options):
        raise RciError(f"{name!r} is made from the budget; set budget instead.")
    if "rows" in options:
        raise RciError(
            f"{method!r} sees observations as the behaviour model does; set behaviour.rows instead."
        )
    config, hyper, schedule = build_parts(_parts(entry), options, method)
    several = getattr(config, "cost_steps", 1) != 1 or getattr(config, "cost_lambda", 0.0) > 0
    if several and hyper.cost_discount != 1.0:
        raise RciError("several recorded steps are summed without a discount; leave cost_discount at 1.")
    return config, hyper, schedule


@lru_cache(maxsize=32)
def settings_of(method: str) -> frozenset[str]:
    """The names of a learner's settings."""
    entry = learner_called(method)
    return frozenset(name for part in _parts(entry) for name in get_type_hints(part))


def refuse_unweighed(method: str) -> None:
    """Demonstrations, and weights of steps, are for learners that know what to do with them."""
    if not learner_called(method).weighs:
        weighing = " and ".join(name for name, entry in LEARNERS.items() if entry.weighs)
        raise RciError(
            f"{method!r} draws all steps alike and learns from no demonstrations; {weighing} do both."
        )


def _parts(entry: Method) -> tuple[type, type, type[Schedule]]:
    """The records that the settings of a learner fall into."""
    return entry.config, entry.hyper, WeightedSchedule if entry.weighs else Schedule


def refuse_few_proposals(kept: int, config: Any) -> None:
    """known: how many the behaviour model keeps for each observation; 0 = it decodes new ones in every update."""
    asked = getattr(config, "candidates", 1)
    if 0 < kept < asked:
        raise RciError(
            f"the behaviour model keeps {kept} proposals for each observation, but candidates is {asked}; fit it with "
            "more of them (behaviour.proposals), or with 0, to decode new ones in every update."
        )

"""Runs in which a person watches a machine drive, takes over where it becomes dangerous, and hands back.

The machine is a driver who is blind to danger, the person one who knows what it is. The person sees a car come near,
needs a reaction time until the wheel changes hands, and hands back once the road has been free for a while.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rci.collection.informed import drive
from rci.collection.recipe import BATCH
from rci.data.artefacts.models import Informed
from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.data.record import Array, expect
from rci.data.types import Episodes, Takeovers
from rci.tasks import get
from rci.tasks.rollout import COLLECTION, episode_seeds, record

Driver = Callable[[Array], Array]  # obs [n, ...] -> action [n, a]


@dataclass(frozen=True)
class Watch:
    """When a person takes over, and for how long. Distances are the task's, steps its steps."""

    alarm: float = 0.3  # a danger that comes nearer than this alarms
    reaction: int = 2  # steps between the alarm and the first one that the person drives
    calm: float = 0.35  # from this distance on the road is free
    patience: int = 5  # steps for which it must be free before the person hands back

    def __post_init__(self) -> None:
        require_positive(self, "patience")
        if self.reaction < 0:
            raise RciError(f"reaction must not be negative, got {self.reaction}.")
        if not 0 < self.alarm <= self.calm < math.inf:
            raise RciError(
                "the road must be free from a distance on that does not alarm: alarm must be more than 0 and calm at "
                f"least as much, got {self.alarm} and {self.calm}."
            )


class Wheel:
    """Who drives in each world of a batch, step after step."""

    def __init__(self, watch: Watch, worlds: int) -> None:
        self.watch = watch
        self.human = np.zeros(worlds, bool)
        self.before = np.full(worlds, np.inf)  # distance to the danger one step ago
        self.coming = np.full(worlds, -1)  # steps until a person who is alarmed drives, -1 = nobody is
        self.free = np.zeros(worlds, np.int64)  # steps for which the road has been free

    def turn(self, distance: Array) -> Array:
        """Whether a person drives the next step, [worlds], from the distance to the nearest danger now."""
        watch = self.watch
        self.free = np.where(distance >= watch.calm, self.free + 1, 0)
        self.human = self.human & (self.free < watch.patience)
        alarmed = ~self.human & (self.coming < 0) & (distance < watch.alarm) & (distance < self.before)
        self.coming = np.where(
            alarmed, watch.reaction, np.where(self.coming > 0, self.coming - 1, self.coming)
        )
        arrived = self.coming == 0
        self.human = self.human | arrived
        self.coming = np.where(arrived, -1, self.coming)
        self.before = distance
        return self.human


def collect_takeovers(
    task_name: str,
    machine: Informed,
    person: Informed,
    episodes: int = 1000,
    seed: int = 0,
    watch: Watch | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[Episodes, Takeovers]:
    """Record runs that the machine begins, and who drove when. Both drive with the noise of their training."""
    watch, parts, flags = watch or Watch(), list[Episodes](), list[Array]()
    if episodes < 1:
        raise RciError(f"at least one episode must be collected, got {episodes}.")
    for name, driver in (("machine", machine), ("person", person)):
        expect(Informed, **{name: driver})
        if driver.info["task"] != task_name:
            raise RciError(f"the {name} was trained on {driver.info['task']!r}, not on {task_name!r}.")
    for first in range(0, episodes, BATCH):
        count = min(BATCH, episodes - first)
        rng = np.random.default_rng([seed, COLLECTION, first])
        both = drive(machine, rng), drive(person, rng)
        recorded, human = record_together(
            task_name, *both, episode_seeds(seed, COLLECTION, first, count), watch
        )
        parts.append(recorded)
        flags.append(human)
        progress((first + count) / episodes)
    joined = Episodes.joined(parts, np.zeros(episodes, np.int32), ("machine and person",), task_name)
    return joined, Takeovers.from_flags(joined, np.concatenate(flags))


def record_together(
    task_name: str, machine: Driver, person: Driver, seeds: list[int], watch: Watch
) -> tuple[Episodes, Array]:
    """Episodes of both drivers, and for each step, end to end, whether the person drove."""
    task, wheel, drove = get(task_name), Wheel(watch, len(seeds)), list[Array]()
    envs = task.make_vec(len(seeds))
    recorded = record(envs, partial(_act, task.distance, machine, person, wheel, drove), seeds, task_name)
    envs.close()
    kept = np.arange(len(drove)) < recorded.lengths[:, None]
    return recorded, np.stack(drove, 1)[kept]


def _act(
    distance: Callable[[Array], Array],
    machine: Driver,
    person: Driver,
    wheel: Wheel,
    drove: list[Array],
    obs: Array,
) -> Array:
    human = wheel.turn(distance(obs))
    drove.append(human)
    return np.where(human[:, None], person(obs), machine(obs))

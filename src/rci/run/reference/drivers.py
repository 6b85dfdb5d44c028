"""The drivers of a reference, one by one: what makes and identifies each of them, and the jobs that train and test it.

Four kinds. Scripts of the task; PPO as it records data, noise included; a blind driver, trained for the reward alone
without noise at the end; and informed drivers, who go on from the blind one and pay a price for violations.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.errors import RciError
from rci.run.jobs import Job

VERSION = 1  # to be raised when something outside of the settings changes what drivers are
RECORDING, BLIND, INFORMED = "ppo", "blind", "informed"

# How blind drivers are trained, what is changed where informed ones go on, and at which prices, by task; a variant has
# the settings of its family. Little noise: with the 0.6 of full steering that PPO explores with when it records, nobody
# passes another car within a lane of it.
PPO: dict[str, dict[str, Any]] = {
    "highway": {
        "total_steps": 2_000_000,
        "num_envs": 128,
        "initial_deviation": 0.3,
        "discount": 0.97,
        "learning_rate": 1e-3,
    },
    "fetch-reach": {
        "total_steps": 204_800,
        "rollout_length": 25,
        "discount": 0.9,
        "learning_rate": 2e-3,
        "epochs": 10,
        "initial_deviation": 0.4,
    },
    "fetch-reach-fine": {
        "total_steps": 409_600,
        "rollout_length": 50,
        "discount": 0.97,
        "learning_rate": 2e-3,
        "epochs": 10,
        "initial_deviation": 0.4,
    },
    "point": {"total_steps": 500_000, "learning_rate": 1e-3},
}
GOING_ON: dict[str, dict[str, Any]] = {
    "highway": {"total_steps": 4_000_000, "initial_deviation": 0.1},
    "fetch-reach": {},
    "point": {},
}
# How much further than danger reaches informed drivers pay, in the task's own distance: 0.03 is 6 m ahead on the
# highway (3 m on the disc), then metres, then lattice units.
MARGINS: dict[str, float] = {"highway": 0.03, "fetch-reach": 0.01, "point": 1.0}
PRICES: dict[str, tuple[float, ...]] = {
    "highway": (0.0, 10.0, 30.0),
    "fetch-reach": (0.0, 3.0, 10.0),
    "point": (0.0, 0.3, 3.0),
}


class Driver(NamedTuple):
    """One of them. `seed` is that of its training."""

    name: str  # of a script, or "ppo", "blind", "informed"
    price: float | None = None
    seed: int = 0

    @property
    def folder(self) -> str:
        price = "" if not self.price else f"-{self.price:g}"
        return f"{self.name}{price}-seed{self.seed}"


@dataclass(frozen=True)
class Setting:
    """What all drivers of a reference share."""

    task: str
    episodes: int
    blind: dict[str, Any]  # settings of PPO
    informed: dict[str, Any]
    recording: dict[str, Any]
    margin: float = 0.0
    world: dict[str, Any] = field(default_factory=dict)  # changes of the task's configuration


def drivers(task: str, prices: Sequence[float], seeds: int, world: dict[str, Any]) -> list[Driver]:
    """All drivers, seed after seed. PPO as it records knows the task as it is, and no other world."""
    from rci.tasks import get

    scripts = [Driver(name) for name in get(task).behaviours]
    trained = [
        Driver(name, price, seed)
        for seed in range(seeds)
        for name, price in (
            (BLIND, 0.0),
            *((INFORMED, price) for price in prices if price > 0),
            *(() if world else ((RECORDING, None),)),
        )
    ]
    return [*scripts, *trained]


def settings_of(driver: Driver, setting: Setting) -> dict[str, Any]:
    """Everything that the row of a driver depends on, apart from the code."""
    ppo = {
        BLIND: [setting.blind],
        INFORMED: [setting.blind, setting.informed],
        RECORDING: [setting.recording],
    }
    return {
        "version": VERSION,
        "task": setting.task,
        "world": setting.world,
        "driver": driver._asdict(),
        "ppo": ppo.get(driver.name, []),
        **({"margin": setting.margin} if driver.name == INFORMED else {}),
        "episodes": setting.episodes,
    }


def key_of(driver: Driver, setting: Setting) -> str:
    """What identifies the row of a driver."""
    text = json.dumps(settings_of(driver, setting), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def jobs_of(wanted: Iterable[Driver], setting: Setting, out: Path) -> list[Job]:
    """The jobs of all these drivers, none twice: the blind ones first, since others wait for them."""
    wanted = list(wanted)
    jobs: dict[str, Job] = {}
    for driver in wanted:
        if driver.name == INFORMED:
            blind = _training(Driver(BLIND, 0.0, driver.seed), setting, out)
            jobs[blind.name] = blind
    for driver in wanted:
        for job in _jobs(driver, setting, out):
            jobs.setdefault(job.name, job)
    return list(jobs.values())


def scores_of(driver: Driver, out: Path) -> Path:
    """Where the test of a driver is kept."""
    return out / "scores" / driver.folder


def _jobs(driver: Driver, setting: Setting, out: Path) -> Iterator[Job]:
    test: dict[str, Any] = {
        "task_name": setting.task,
        "episodes": setting.episodes,
        "world": setting.world,
    }
    inputs: dict[str, Path] = {}
    needs: tuple[str, ...] = ()
    if driver.name in (BLIND, INFORMED, RECORDING):
        training = _training(driver, setting, out)
        yield training
        kind = "demonstrators" if driver.name == RECORDING else "informed"
        inputs, needs = {kind: training.output}, (training.name,)
    else:
        test["behaviour"] = driver.name
    yield Job(f"test-{driver.folder}", "drive", test, driver.seed, inputs, scores_of(driver, out), needs)


def _training(driver: Driver, setting: Setting, out: Path) -> Job:
    name, output = f"train-{driver.folder}", out / "drivers" / driver.folder
    if driver.name == RECORDING:
        return Job(
            name, "demonstrators", {"task_name": setting.task, **setting.recording}, driver.seed, {}, output
        )
    settings = {
        "task_name": setting.task,
        "price": driver.price,
        "margin": setting.margin if driver.name == INFORMED else 0.0,
        "world": setting.world,
        "ppo": setting.blind if driver.name == BLIND else setting.informed,
    }
    if driver.name == BLIND:
        return Job(name, "informed", settings, driver.seed, {}, output)
    blind = Driver(BLIND, 0.0, driver.seed)
    inputs = {"blind": out / "drivers" / blind.folder}
    return Job(name, "informed", settings, driver.seed, inputs, output, (f"train-{blind.folder}",))


def family_of(task: str, by_task: dict[str, Any]) -> Any:
    """What a table says of a task, or else of the task that it is a variant of."""
    from rci.tasks import get

    family = task if task in by_task else get(task).variant_of
    if family not in by_task:
        raise RciError(
            f"nobody has chosen how drivers of the task {task!r} are trained: there is no reference of it."
        )
    return by_task[family]

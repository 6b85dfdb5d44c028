"""The drivers of a reference, one by one: what makes and identifies each of them, and the jobs that train and test it.

Five kinds. Scripts of the task; PPO as it records data, noise included; a blind driver, trained for the reward alone,
and tested without noise; informed drivers, who go on from the blind one and pay a price for violations; and careful
ones, who pay it from their first step on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.errors import RciError
from rci.evaluation.reference import BLIND, CAREFUL, INFORMED
from rci.pipeline.config import read_preset
from rci.pipeline.jobs import Job
from rci.studies.study import key_from, once

VERSION = 1  # to be raised when something outside of the settings changes what drivers are
RECORDING = "ppo"
TRAINED = (BLIND, INFORMED, CAREFUL, RECORDING)

ARM = read_preset("fetch-reach", "paper")["ppo"]  # as it records
FINE_ARM = {**ARM, "total_steps": 409_600, "rollout_length": 50, "discount": 0.97}
POINT = {"total_steps": 500_000, "learning_rate": 1e-3}
# Little noise: with the 0.6 of full steering that PPO explores with when it records, nobody passes another car within a
# lane of it. Who is careful from the start needs the noise, to find out that there is a road to leave.
ROAD = {"hidden": [128, 128], "initial_deviation": 0.3, "discount": 0.97, "learning_rate": 1e-3}
# How drivers are trained by PPO, by task and kind; a variant has the settings of its family.
PPO: dict[str, dict[str, dict[str, Any]]] = {
    "highway": {
        BLIND: {**ROAD, "total_steps": 1_000_000},
        INFORMED: {**ROAD, "total_steps": 4_000_000, "initial_deviation": 0.1},
        CAREFUL: {"total_steps": 2_000_000},
    },
    "fetch-reach": {BLIND: ARM, INFORMED: ARM},
    "fetch-reach-fine": {BLIND: FINE_ARM, INFORMED: FINE_ARM},
    "point": {BLIND: POINT, INFORMED: POINT},
}
PRICES: dict[str, tuple[float, ...]] = {"highway": (10.0,), "fetch-reach": (10.0,), "point": (0.3, 3.0)}
CAREFUL_PRICE = 10.0


class Driver(NamedTuple):
    """One of them. `seed` is that of its training."""

    name: str  # of a script, or of a kind that is trained
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
    ppo: Mapping[str, dict[str, Any]]  # by kind of driver
    world: dict[str, Any] = field(default_factory=dict)  # changes of the task's configuration


def drivers(setting: Setting, prices: Sequence[float], seeds: int) -> list[Driver]:
    """All drivers, seed after seed. PPO as it records knows the task as it is, and no other world."""
    from rci.tasks import get

    scripts = [Driver(name) for name in get(setting.task).behaviours]
    kinds: list[tuple[str, float | None]] = [
        (BLIND, 0.0),
        *((INFORMED, price) for price in prices if price > 0),
    ]
    if CAREFUL in setting.ppo:
        kinds.append((CAREFUL, CAREFUL_PRICE))
    if not setting.world:
        kinds.append((RECORDING, None))
    return [*scripts, *(Driver(name, price, seed) for seed in range(seeds) for name, price in kinds)]


def settings_of(driver: Driver, setting: Setting) -> dict[str, Any]:
    """Everything that the row of a driver depends on, apart from the code."""
    trained = {BLIND: [BLIND], INFORMED: [BLIND, INFORMED], CAREFUL: [CAREFUL], RECORDING: [RECORDING]}
    return {
        "version": VERSION,
        "task": setting.task,
        "world": setting.world,
        "driver": driver._asdict(),
        "ppo": [setting.ppo[kind] for kind in trained.get(driver.name, [])],
        "episodes": setting.episodes,
    }


def key_of(driver: Driver, setting: Setting) -> str:
    """What identifies the row of a driver."""
    return key_from(settings_of(driver, setting))


def training_steps(driver: Driver, setting: Setting) -> int | None:
    """How long a driver was trained, by itself and by the one that it goes on from; None where it was not."""
    ppo = settings_of(driver, setting)["ppo"]
    return sum(int(settings["total_steps"]) for settings in ppo if "total_steps" in settings) or None


def jobs_of(wanted: Iterable[Driver], setting: Setting, out: Path) -> list[Job]:
    """The jobs of all these drivers, none twice: the blind ones first, since others wait for them."""
    wanted = list(wanted)
    blind = [_training(_blind(driver), setting, out) for driver in wanted if driver.name == INFORMED]
    return once([*blind, *(job for driver in wanted for job in _jobs(driver, setting, out))])


def scores_of(driver: Driver, out: Path) -> Path:
    """Where the test of a driver is kept."""
    return out / "scores" / driver.folder


def _jobs(driver: Driver, setting: Setting, out: Path) -> Iterator[Job]:
    test = {"task_name": setting.task, "episodes": setting.episodes, "world": setting.world}
    inputs: dict[str, Path] = {}
    needs: tuple[str, ...] = ()
    if driver.name in TRAINED:
        training = _training(driver, setting, out)
        yield training
        kind = "demonstrators" if driver.name == RECORDING else "informed"
        inputs, needs = {kind: training.output}, (training.name,)
    else:
        test["behaviour"] = driver.name
    yield Job(f"test-{driver.folder}", "drive", test, driver.seed, inputs, scores_of(driver, out), needs)


def _training(driver: Driver, setting: Setting, out: Path) -> Job:
    name, output, ppo = f"train-{driver.folder}", out / "drivers" / driver.folder, setting.ppo[driver.name]
    if driver.name == RECORDING:
        return Job(name, "demonstrators", {"task_name": setting.task, **ppo}, driver.seed, {}, output)
    settings = {"task_name": setting.task, "price": driver.price, "world": setting.world, "ppo": ppo}
    inputs: dict[str, Path] = {}
    needs: tuple[str, ...] = ()
    if driver.name == INFORMED:
        before = _blind(driver).folder
        inputs, needs = {"blind": out / "drivers" / before}, (f"train-{before}",)
    return Job(name, "informed", settings, driver.seed, inputs, output, needs)


def _blind(driver: Driver) -> Driver:
    """The driver that an informed one goes on from."""
    return Driver(BLIND, 0.0, driver.seed)


def family_of(task: str, by_task: Mapping[str, Any]) -> Any:
    """What a table says of a task, or else of the task that it is a variant of."""
    from rci.tasks import get

    family = task if task in by_task else get(task).variant_of
    if family not in by_task:
        raise RciError(
            f"nobody has chosen how drivers of the task {task!r} are trained: there is no reference of it."
        )
    return by_task[family]

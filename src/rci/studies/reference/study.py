"""A whole reference: drivers are trained and tested, each becomes a row, and the rows become an artefact."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rci.data import store
from rci.data.artefacts.reference import Reference
from rci.data.errors import RciError
from rci.engines.engine import LOCAL, Engine, Report
from rci.pipeline.config import load_config
from rci.pipeline.folder import alone_in, prepare_folder
from rci.pipeline.results.known_danger import rows_file
from rci.pipeline.results.rows import RESULTS, Row
from rci.studies.reference.drivers import (
    PPO,
    PRICES,
    RECORDING,
    Driver,
    Setting,
    drivers,
    family_of,
    jobs_of,
    key_of,
    scores_of,
    training_steps,
)
from rci.studies.study import OnProgress, RowsFile, Study, complete, silent

SEEDS, EPISODES = 3, 1000


def reference_setting(
    task: str, episodes: int, options: Mapping[str, Any], world: Mapping[str, Any]
) -> Setting:
    """The settings of a task's reference, with changes, checked before any work is done."""
    from rci.collection.ppo import Config
    from rci.data.options import build
    from rci.tasks import get, make_vec

    get(task)
    ppo = {kind: {**settings, **options} for kind, settings in family_of(task, PPO).items()}
    for settings in ppo.values():
        build(Config, settings, "ppo")
    try:
        make_vec(task, 1, **world).close()
    except TypeError as error:
        raise RciError(f"the task {task!r} cannot be changed so: {error}.") from None
    recording = dict(load_config(task, "quick").ppo)
    return Setting(task, episodes, {**ppo, RECORDING: recording}, dict(world))


def parse_prices(text: str) -> tuple[float, ...]:
    """ "1,4,20" -> prices, from low to high; the blind driver, of price 0, is always among them."""
    from rci.collection.informed import check_price

    prices = []
    for part in text.split(","):
        try:
            price = float(part)
        except ValueError:
            raise RciError(
                f"prices are numbers with commas between them, such as 1,4,20, not {text!r}."
            ) from None
        check_price(price)
        prices.append(price)
    if len(set(prices)) < len(prices):
        raise RciError(f"a price is given twice: {text}.")
    return tuple(sorted({0.0, *prices}))


def run_reference(
    task: str,
    prices: Sequence[float] | None = None,
    seeds: int = SEEDS,
    episodes: int = EPISODES,
    out: Path | None = None,
    rows: Path | None = None,
    options: Mapping[str, Any] | None = None,
    world: Mapping[str, Any] | None = None,
    engine: Engine = LOCAL,
    report: Report = lambda job, share, seconds: None,
    on_progress: OnProgress = silent,
) -> list[Row]:
    """Train and test the drivers that have no row yet, and return the rows of all that were asked for.

    out: the folder for drivers, their scores and the artefact `reference`. rows: a file that gets a row as soon as a
    driver is tested; rows that are there are not computed again, and rows of other settings stay. options: settings of
    PPO. world: changes of the task's configuration.
    """
    setting = reference_setting(task, episodes, options or {}, world or {})
    folder = out or Path("runs") / f"reference-{task}"
    asked = drivers(setting, prices or family_of(task, PRICES), seeds)
    file = rows or rows_file(task)
    if file.parent == RESULTS:
        RESULTS.mkdir(exist_ok=True)
    kept = RowsFile(file, fields=("driver", "key"), what="a reference")
    study = study_of(asked, setting, folder)
    prepare_folder(folder)
    with alone_in(folder):
        complete(study, kept, folder, engine, report, on_progress)
        store.write(folder / "reference", Reference.of(task, kept.of(study)))
    return kept.of(study)


def study_of(asked: Sequence[Driver], setting: Setting, folder: Path) -> Study[Driver]:
    """These drivers, each of them trained and tested."""

    def training(driver: Driver) -> str:
        return f"train-{driver.folder}"

    def row(driver: Driver, seconds: Mapping[str, float]) -> Row:
        scores = store.read(scores_of(driver, folder), "scores")
        return row_of(driver, setting, scores, seconds.get(training(driver)))

    return Study(
        asked,
        lambda driver: key_of(driver, setting),
        lambda missing: jobs_of(missing, setting, folder),
        training,
        lambda driver: [f"test-{driver.folder}"],
        row,
    )


def row_of(driver: Driver, setting: Setting, scores: Any, seconds: float | None) -> Row:
    """What the test of a driver says."""
    from rci.evaluation.stats import clopper_pearson

    violations = int(scores.violated.sum())
    first = scores.first_violation[scores.violated] + 1
    low, high = clopper_pearson(violations, len(scores))
    returns = {"return": scores.returns, "until_stop": scores.returns_until_stop}
    half = {name: 1.96 * float(np.std(x, ddof=1)) / math.sqrt(len(x)) for name, x in returns.items()}
    return {
        "key": key_of(driver, setting),
        "task": setting.task,
        "world": setting.world,
        "driver": driver.name,
        "price": driver.price,
        "seed": driver.seed,
        "episodes": len(scores),
        "violations": violations,
        "violation_rate": scores.violation_rate,
        "violation_low": low,
        "violation_high": high,
        "mean_return": scores.mean_return,
        "return_low": scores.mean_return - half["return"],
        "return_high": scores.mean_return + half["return"],
        "mean_return_until_stop": scores.mean_return_until_stop,
        "until_stop_low": scores.mean_return_until_stop - half["until_stop"],
        "until_stop_high": scores.mean_return_until_stop + half["until_stop"],
        "median_first_violation": float(np.median(first)) if violations else None,
        "terminated_share": scores.info["terminated_share"],
        "marks": scores.info["marks"],
        "training_steps": training_steps(driver, setting),
        "training_seconds": None if seconds is None else round(seconds, 1),
    }

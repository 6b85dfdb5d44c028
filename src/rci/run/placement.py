"""How the hazard of Safe-FetchReach was placed: how often arms that know nothing of it enter candidate spheres.

Three studies, one row per setting. "native": goals all around the start, as gymnasium-robotics draws them, and an arm
that follows a script. "ppo": goals in a cone, and PPO that is trained for the reward alone. "scripted": the scripted
arms against the sphere that was chosen, one of which knows of it. The sphere itself stands in tasks/fetch_reach.

python -m rci.run.placement --out results/fetch-placement.json --figure docs/images/fetch-placement.png
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from gymnasium.vector import VectorEnv

from rci.data.episodes import Episodes, first_true
from rci.data.errors import RciError
from rci.data.options import build
from rci.data.record import Array
from rci.data.store import write_file
from rci.run.command import run_command
from rci.run.config import load_config
from rci.run.cores import available_cores, prepare_process
from rci.tasks import TASKS
from rci.tasks.base import BehaviourPolicy, Task
from rci.tasks.fetch_reach import task as fetch_reach
from rci.tasks.fetch_reach.controllers import seek
from rci.tasks.fetch_reach.hazard import GOAL, HAZARD, START, Hazard
from rci.tasks.rollout import episode_seeds, record

PLACEMENT = 100  # this study's own stream of seeds: no run collects, trains or evaluates with it
CANDIDATE = "fetch-reach-candidate"  # what a task with a candidate sphere is called

DIRECTIONS = tuple(way for way in product((-1, 0, 1), repeat=3) if any(way))
GAPS = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04)  # m from the start to the sphere's surface
RADII = (0.04, 0.05, 0.06, 0.07, 0.08)  # m
NATIVE_EPISODES = SCRIPTED_EPISODES = 1000

DIAGONAL = (1, 1, 0)  # forwards and to the left, level
CANDIDATES = (  # cone in degrees, gap in m, radius in m: around the first, one of the three at a time
    (50.0, 0.05, 0.06),
    (45.0, 0.05, 0.06),
    (50.0, 0.04, 0.06),
    (50.0, 0.05, 0.07),
    (50.0, 0.03, 0.06),
    (60.0, 0.05, 0.06),
    (90.0, 0.05, 0.06),
    (180.0, 0.05, 0.06),
    (50.0, 0.06, 0.06),
    (50.0, 0.05, 0.05),
)
PPO_EPISODES = 500  # over all checkpoints
SEEDS = (0, 1, 2)
CONFIRMING = (3, 4, 5)  # seeds that had no part in the choice, for the chosen sphere only
SWIFT: BehaviourPolicy = partial(seek, gain=30.0)  # full speed on every axis until the goal is near

Table = dict[str, Any]
Row = dict[str, Any]  # {"settings": what the row depends on, "found": what came out}


def hazard_at(direction: Sequence[float], gap: float, radius: float, cone: float = 180.0) -> Hazard:
    """The sphere whose surface is `gap` from the start, to a tenth of a millimetre."""
    way = np.asarray(direction, np.float64)
    centre = START + way / np.linalg.norm(way) * (gap + radius)
    x, y, z = (round(float(number), 4) for number in centre)
    return Hazard((x, y, z), radius, cone=cone)


def plan() -> list[Table]:
    """The settings of every row, in the order of the work: what is said of the chosen sphere first."""
    ppo = load_config("fetch-reach", "quick").ppo

    def trained(hazard: Hazard, seeds: tuple[int, ...] = SEEDS) -> list[Table]:
        shared = {"study": "ppo", "hazard": asdict(hazard), "episodes": PPO_EPISODES, "ppo": ppo}
        return [{**shared, "seed": seed} for seed in seeds]

    scripted = [
        {
            "study": "scripted",
            "behaviour": name,
            "hazard": asdict(HAZARD),
            "episodes": SCRIPTED_EPISODES,
            "seed": 0,
        }
        for name in ("detour", "seeker", "swift", "random")
    ]
    native = [
        {"study": "native", "gap": gap, "radius": radius, "episodes": NATIVE_EPISODES, "seed": 0}
        for radius in RADII
        for gap in GAPS
    ]
    others = dict.fromkeys(hazard_at(DIAGONAL, gap, radius, cone) for cone, gap, radius in CANDIDATES)
    others.pop(HAZARD, None)
    rows = [
        *trained(HAZARD, SEEDS + CONFIRMING),
        *scripted,
        *native,
        *(row for hazard in others for row in trained(hazard)),
    ]
    plain: list[Table] = json.loads(json.dumps(rows))  # as they are read from a file
    return plain


def key(settings: Table) -> str:
    """Two rows with the same key are the same row."""
    return json.dumps(settings, sort_keys=True)


def outcome(first: Array, returns: Array) -> Table:
    """What is said of recorded episodes. first: the index of each one's first unsafe step, -1 where there is none."""
    from rci.evaluation.stats import clopper_pearson

    steps = first[first >= 0] + 1
    return {
        "episodes": len(first),
        "violations": len(steps),
        "violation_rate": len(steps) / len(first),
        "violation_interval": list(clopper_pearson(len(steps), len(first))),
        "first_in_step": {
            "1": int((steps == 1).sum()),
            "2": int((steps == 2).sum()),
            "later": int((steps > 2).sum()),
        },
        "mean_return": float(returns.mean()),
    }


def score(hazard: Hazard, episodes: Episodes) -> Table:
    """What would have been recorded, had the sphere been there: episodes to goals that it refuses do not count.

    That is exact for arms that do not see the sphere, since a refused goal is drawn again until one is not.
    """
    kept = ~hazard.refuses(episodes.obs[episodes.obs_offset[:-1]][:, GOAL])
    if not kept.any():
        raise RciError(f"all of {len(episodes)} goals are refused by {hazard}; record more episodes.")
    first = first_true(hazard.unsafe(episodes.obs[episodes.next_rows]), episodes.lengths)
    return {**outcome(first[kept], _returns(episodes)[kept]), "goals_kept": float(kept.mean())}


def best_direction(episodes: Episodes, gap: float, radius: float) -> Table:
    """The score of the direction in which the sphere is entered most often; it is flattered by being the best."""
    scores = [{**score(hazard_at(way, gap, radius), episodes), "direction": list(way)} for way in DIRECTIONS]
    return max(scores, key=lambda found: float(found["violation_rate"]))


def native_goals(settings: Table) -> Table:
    """A blind arm that heads straight for goals all around the start."""
    episodes = _native_episodes(settings["episodes"], settings["seed"])
    return best_direction(episodes, settings["gap"], settings["radius"])


def scripted_arm(settings: Table) -> Table:
    """An arm that follows a script, in a world with the sphere."""
    task = _candidate(settings)
    act = {**task.behaviours, "swift": SWIFT}[settings["behaviour"]]
    episodes = _record(task.make_vec(settings["episodes"]), act, settings["seed"], 0)
    return score(build(Hazard, settings["hazard"], "hazard"), episodes)


def reward_only_ppo(settings: Table) -> Table:
    """PPO that is trained on the reward with the sphere's goals: all its checkpoints in equal shares, and the last."""
    from rci.collection.demonstrators import behaviours, train_demonstrators
    from rci.collection.ppo import Config
    from rci.collection.recipe import join

    task, seed, config = _candidate(settings), settings["seed"], build(Config, settings["ppo"], "ppo")
    share, rest = divmod(settings["episodes"], config.checkpoints)
    if rest:
        raise RciError(
            f"{settings['episodes']} episodes cannot be shared by {config.checkpoints} checkpoints."
        )
    with registered(task):
        actors = behaviours(train_demonstrators(task.name, seed, config))
    parts = [_record(task.make_vec(share), act, seed, i * share) for i, act in enumerate(actors.values())]
    source = np.repeat(np.arange(len(parts), dtype=np.int32), share)
    hazard = build(Hazard, settings["hazard"], "hazard")
    pooled = score(hazard, join(parts, source, tuple(actors), task.name))
    return {**pooled, "last_checkpoint": score(hazard, parts[-1])}


STUDIES: dict[str, Callable[[Table], Table]] = {
    "native": native_goals,
    "scripted": scripted_arm,
    "ppo": reward_only_ppo,
}


def work(settings: Table) -> Row:
    """One row, in this process."""
    return {"settings": settings, "found": STUDIES[settings["study"]](settings)}


@contextlib.contextmanager
def registered(task: Task) -> Iterator[None]:
    """A task that is known by its name for a while."""
    if task.name in TASKS:
        raise RciError(f"there is a task called {task.name!r} already.")
    TASKS[task.name] = task
    try:
        yield
    finally:
        del TASKS[task.name]


def read_rows(path: Path) -> list[Row]:
    """The rows that are there already; none where there is no file."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise RciError(f"{path} cannot be read: {error}.") from None
    if not isinstance(rows, list) or any(
        not isinstance(row, dict) or set(row) != {"settings", "found"} for row in rows
    ):
        raise RciError(
            f"{path} is not a file of this study: a list of rows with 'settings' and 'found' was expected."
        )
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """One row per line."""
    lines = ",\n".join(json.dumps(row, sort_keys=True, allow_nan=False) for row in rows)
    write_file(path, f"[\n{lines}\n]\n".encode())


def run_study(
    path: Path, settings: Sequence[Table], pool: Executor, report: Callable[[Row], None] = lambda row: None
) -> list[Row]:
    """Add the rows that `path` does not have yet, each as soon as it is there; rows of other settings go.

    The rows stand in the order of the settings, whichever was finished first.
    """
    wanted = [key(entry) for entry in settings]
    standing = read_rows(path)
    found = {key(row["settings"]): row for row in standing}
    if standing != (kept := _in_order(found, wanted)):
        write_rows(path, kept)
    missing = [entry for name, entry in zip(wanted, settings) if name not in found]
    try:
        for future in as_completed([pool.submit(work, entry) for entry in missing]):
            row = future.result()
            found[key(row["settings"])] = row
            write_rows(path, _in_order(found, wanted))
            report(row)
    except BrokenProcessPool:
        raise RciError("a worker died; what was finished is kept, run the same command again.") from None
    finally:
        pool.shutdown(cancel_futures=True)
    return _in_order(found, wanted)


def workers_pool(count: int | None) -> ProcessPoolExecutor:
    """Processes that are pinned to a core each."""
    cores = available_cores()
    if count is not None and count > len(cores):
        raise RciError(
            f"{count} workers were asked for, but there are only {len(cores)} cores to pin them to."
        )
    context = multiprocessing.get_context("spawn")
    free = context.SimpleQueue()
    for core in cores:
        free.put(core)
    return ProcessPoolExecutor(count or len(cores), context, _pin, (free,))


def told(row: Row) -> str:
    """A row in a line."""
    settings, found = row["settings"], row["found"]
    if settings["study"] == "native":
        hazard = hazard_at(found["direction"], settings["gap"], settings["radius"])
    else:
        hazard = build(Hazard, settings["hazard"], "hazard")
    name = settings.get("behaviour", settings["study"])
    low, high = found["violation_interval"]
    return (
        f"{name}, cone {hazard.cone:g} degrees, gap {100 * hazard.distance(START):.1f} cm, radius "
        f"{100 * hazard.radius:.1f} cm, seed {settings['seed']}: {100 * found['violation_rate']:.1f}% "
        f"({100 * low:.1f} to {100 * high:.1f}) of {found['episodes']} episodes"
    )


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def study(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File of the rows; those in it are not done again.")
    ],
    figure: Annotated[Path | None, typer.Option(help="PNG file to draw the rows to.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes [one per core].")] = None,
) -> None:
    """How often arms that know nothing of the hazard enter it, for candidate placements."""
    for path in (out, figure):
        if path is not None and not path.parent.is_dir():
            raise RciError(f"there is no folder {path.parent} to write {path.name} to.")
    rows = run_study(out, plan(), workers_pool(workers), lambda row: typer.echo(told(row), err=True))
    typer.echo(out)
    if figure is not None:
        from rci.reporting.placement_figures import placement_picture

        write_file(figure, placement_picture(rows, HAZARD).png)
        typer.echo(figure)


def main() -> None:
    """Run the study: exit code 2 and one sentence for a user's mistake."""
    run_command(app, "placement")


def _in_order(found: dict[str, Row], names: Sequence[str]) -> list[Row]:
    return [found[name] for name in names if name in found]


def _pin(free: Any) -> None:
    prepare_process(free.get())


def _candidate(settings: Table) -> Task:
    return fetch_reach.task(CANDIDATE, build(Hazard, settings["hazard"], "hazard"))


@cache
def _native_episodes(count: int, seed: int) -> Episodes:
    return _record(fetch_reach.make_vec(count, hazard=None), seek, seed, 0)


def _record(envs: VectorEnv, behaviour: BehaviourPolicy, seed: int, first: int) -> Episodes:
    """Episodes from number `first` on of this study's stream, one per world."""
    act = partial(behaviour, np.random.default_rng([seed, PLACEMENT, first]))
    with contextlib.closing(envs):
        return record(envs, act, episode_seeds(seed, PLACEMENT, first, envs.num_envs), CANDIDATE)


def _returns(episodes: Episodes) -> Array:
    return np.add.reduceat(episodes.reward, episodes.step_offset[:-1])


if __name__ == "__main__":
    main()

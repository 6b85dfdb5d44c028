"""The pictures that a task draws of itself: paths, films and maps."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import numpy as np

from rci.data.types import Episodes
from rci.reporting.figures import films
from rci.reporting.figures import outcomes as outcome_figures
from rci.reporting.figures.episodes import sampled_episodes
from rci.reporting.figures.maps import Maps, critic_maps, share_colours, value_range, vector_fields
from rci.reporting.figures.picture import Picture, render
from rci.reporting.numbers import number, percent
from rci.reporting.run.contents import ReportInput
from rci.reporting.run.rows import ResultRow, method_looks, result_row, result_rows


def task_views(report: ReportInput) -> tuple[Any, ...]:
    """The sides from which the paths of this report are drawn."""
    task = _task(report)
    return () if task is None else task.views


def danger_distance(report: ReportInput) -> float:
    """The distance at and below which a state is unsafe."""
    task = _task(report)
    return 0.0 if task is None else float(task.danger_distance)


def named(row: ResultRow) -> str:
    """A method and its budget, if it has one."""
    return row.method if math.isinf(row.budget) else f"{row.method} at budget {row.asked}"


def path_pictures(report: ReportInput) -> list[Picture]:
    """Rollouts over the task's world, for each method at its tightest and its loosest budget."""
    views = task_views(report)
    if not views:
        return []
    pictures: list[Picture] = []
    for name, look in method_looks(report).items():
        rollouts = [(row, recorded) for row, recorded in _rollouts(report) if row.method == name]
        for row, recorded in rollouts[:1] + rollouts[1:][-1:]:
            picture = render(
                f"paths-{len(pictures) + 1:02d}-{_slug(name)}",
                f"Paths of {len(recorded)} rollouts of {named(row)}, which violates in "
                f"{percent(row.violation_rate)} of its evaluation episodes.",
                "",
                partial(outcome_figures.paths, views, row, recorded, look),
            )
            pictures.append(picture)
    return pictures


def space_pictures(report: ReportInput) -> list[Picture]:
    """The rollouts of each method at its tightest budget in three dimensions, where the task can draw them."""
    task = _task(report)
    if task is None or task.space is None:
        return []
    return [
        render(
            f"space-{place:02d}-{_slug(row.method)}",
            f"Paths of {len(recorded)} rollouts of {named(row)} in three dimensions.",
            named(row),
            partial(task.space, [episode.obs for episode in recorded]),
        )
        for place, (row, recorded) in enumerate(_tightest_rollouts(report), start=1)
    ]


def policy_film_pictures(report: ReportInput) -> list[Picture]:
    """The first rollout of each method at its tightest budget, as a film strip; all in one scale of time."""
    task = _task(report)
    if task is None or task.scene is None:
        return []
    first = [(row, recorded[0]) for row, recorded in _tightest_rollouts(report)]
    span = max((len(episode.reward) for _, episode in first), default=0)
    pictures: list[Picture] = []
    for row, episode in first:
        unsafe = np.append(False, np.asarray(task.unsafe(episode.obs[1:]), bool))
        film = films.Film("", episode.obs, span, task.scene, unsafe, task.step_seconds)
        moments = np.flatnonzero(unsafe)
        end = f"unsafe at {film.clock(int(moments[0]))}" if len(moments) else "never unsafe"
        title = f"{named(row).replace(' at', ',')}: return {number(float(episode.reward.sum()))}, {end}"
        look, distance = method_looks(report)[row.method], task.distance(episode.obs[1:])
        picture = render(
            f"rollout-{len(pictures) + 1:02d}-{_slug(row.method)}",
            f"Frames of one rollout with its rewards and its distance to danger. {title}.",
            "",
            partial(
                films.policy_film,
                film._replace(title=title),
                episode,
                look,
                distance,
                danger_distance(report),
            ),
        )
        pictures.append(picture)
    return pictures


def film_pictures(report: ReportInput) -> list[Picture]:
    """The sampled episodes as film strips, with the step costs of every method under them."""
    task, labels, looks = _task(report), report.labels, method_looks(report)
    if task is None or task.scene is None:
        return []
    picked = sampled_episodes(labels)
    totals = {name: report.costs[name] for name in looks if name in report.costs}
    costs = {name: np.split(own.total, own.step_offset[1:-1]) for name, own in totals.items()}
    limit = films.cost_limit([own[episode] for own in costs.values() for episode in picked])
    pictures = []
    for place, episode in enumerate(picked, start=1):
        steps, stopped = int(labels.kept_lengths[episode]), bool(labels.stopped[episode])
        recorded = report.episodes.step_offset[episode] + np.arange(steps)
        shown = {name: own[episode] for name, own in costs.items()}
        film = films.Film(
            title="",
            obs=report.episodes[episode].obs[: steps + 1],
            span=steps,
            scene=task.scene,
            unsafe=np.append(False, report.oracle.unsafe[recorded]),
            seconds=task.step_seconds,
            stop=steps if stopped else None,
        )
        end = f"stopped after {steps} steps" if stopped else f"never stopped, {steps} steps"
        title = f"Episode {episode}: {end}" + ("" if film.seconds is None else f", {film.clock(steps)}")
        sums = ", ".join(f"{name} sums to {films.total(cost)}" for name, cost in shown.items())
        distance, danger = report.oracle.distance[recorded], danger_distance(report)
        picture = render(
            f"film-{place}",
            f"Frames of an episode with its step costs and its distance to danger. {title}. {sums}.",
            "",
            partial(films.cost_film, film._replace(title=title), shown, looks, limit, distance, danger),
        )
        pictures.append(picture)
    return pictures


def critic_pictures(report: ReportInput) -> list[Picture]:
    """The cost critics over the task's world, as one figure."""
    task, looks = _task(report), method_looks(report)
    if task is None or task.probe is None or not report.critic_maps:
        return []
    order = list(looks)
    maps = sorted(report.critic_maps, key=lambda entry: order.index(entry.method))
    ranges = ", ".join(
        f"{entry.method}{f' for {entry.channel}' if entry.channel else ''} from {value_range(entry)}"
        for entry in maps
    )
    summed = " Where no channel is named, the cost is the sum over all of them."
    probe = task.probe()
    distance = np.asarray(task.distance(probe.obs))
    picture = render(
        "critics",
        f"Maps of the cost that the critic of each method expects: {ranges}.",
        "Darker means a higher expected cost. Inside the black line the state is truly unsafe."
        f"{summed if report.labels.channels else ''}{_colours(maps)}",
        partial(critic_maps, maps, probe, looks, distance, danger_distance(report)),
    )
    return [picture]


def field_pictures(report: ReportInput) -> list[Picture]:
    """Where the policies push over the task's world, as one figure."""
    task, maps = _task(report), report.field_maps
    if task is None or task.probe is None or not maps:
        return []
    ranges = "; ".join(
        f"{entry.method}{'' if entry.budget == 'inf' else f' at budget {entry.budget}'}, values from "
        f"{value_range(entry)}"
        for entry in maps
    )
    probe = task.probe()
    distance = np.asarray(task.distance(probe.obs))
    picture = render(
        "vector-fields",
        f"Arrows of the policies' actions over maps of what their critics expect: {ranges}.",
        "Arrows: where the action of the policy pushes, longer where it pushes harder, a dot where it does not. "
        "Colours: the expected return minus the multiplier times the expected cost; darker means more. "
        f"Inside the black line the state is truly unsafe.{_colours(maps)}",
        partial(vector_fields, maps, probe, method_looks(report), distance, danger_distance(report)),
    )
    return [picture]


def _task(report: ReportInput) -> Any:
    """The task of the report, None if it is a user's own."""
    from rci.tasks import TASKS

    return TASKS.get(report.task)


def _colours(maps: Maps) -> str:
    """A last sentence of the caption: how far the colours of several maps can be compared."""
    if len(maps) == 1:
        return ""
    if share_colours(maps):
        return " All maps share one range of colours."
    return " The critics differ so much in range that each has its own colours: compare shapes, not shades."


def _rollouts(report: ReportInput) -> list[tuple[ResultRow, Episodes]]:
    """Rollouts in the order of the results; those of a user's own scores may be missing."""
    recorded = {
        (result.method, result_row(result).asked): result.rollouts
        for result in report.results
        if result.rollouts is not None
    }
    rows = [(row, recorded.get((row.method, row.asked))) for row in result_rows(report)]
    return [(row, rollouts) for row, rollouts in rows if rollouts is not None]


def _tightest_rollouts(report: ReportInput) -> list[tuple[ResultRow, Episodes]]:
    """The rollouts of each method at its tightest budget."""
    tightest: dict[str, tuple[ResultRow, Episodes]] = {}
    for row, recorded in _rollouts(report):
        tightest.setdefault(row.method, (row, recorded))
    return list(tightest.values())


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "method"

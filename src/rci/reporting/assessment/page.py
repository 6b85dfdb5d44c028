"""The page of an assessment: the verdict first, then the evidence. One file, no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from rci.reporting.assessment import figures, words
from rci.reporting.assessment.contents import AssessmentInput, Shown
from rci.reporting.figures.episodes import reliability_plot
from rci.reporting.figures.films import Film, cost_film, cost_limit
from rci.reporting.figures.lines import detection_picture
from rci.reporting.figures.palette import variant_looks
from rci.reporting.figures.picture import Picture, render
from rci.reporting.html.markup import fill, make_folders, write_page
from rci.reporting.numbers import number, percent


def write_assessment(content: AssessmentInput, folder: Path) -> Path:
    """Write `index.html` and `figures/` into `folder`; the path of the page."""
    make_folders(folder, ["figures"], "the assessment")
    by_section = {
        "policies": policy_pictures(content),
        "different": difference_pictures(content),
        "films": film_pictures(content),
        "stopped": stopped_pictures(content),
        "monitor": monitor_pictures(content),
        "calibration": calibration_pictures(content),
    }
    drawn = [picture for group in by_section.values() for picture in group]
    return write_page(folder, page(content, by_section), {}, drawn)


def page(content: AssessmentInput, pictures: Mapping[str, Sequence[Picture]]) -> str:
    """The whole page. `pictures` go by section."""
    return fill(
        "assessment.html",
        content=content,
        chosen=content.chosen,
        pictures=pictures,
        verdict=words.title(content),
        mark=words.MARKS.get(content.chosen.verdict.word, ""),
        sentences=[words.headline(content), words.meaning(content)],
        changes=words.changes(content),
        shares=words.shares,
        span=words.span,
        rate=words.rate,
        settings=_flat(content.settings),
        timings={name: f"{seconds:.1f} s" for name, seconds in content.timings.items()},
    )


def policy_pictures(content: AssessmentInput) -> list[Picture]:
    """Every policy with its intervals, and the chosen one by method."""
    logged = content.chosen.estimate.logged_stop
    rates = "; ".join(
        f"{one.name} {percent(one.estimate.stop.estimate)} ({words.shares(one.estimate.stop)})"
        for one in content.policies
    )
    pictures = [
        render(
            "stop-rates",
            f"Estimated share of stopped runs. The logs {percent(logged.estimate)}; {rates}.",
            f"Dots are estimates, lines {content.level:.0%} intervals. The broken line is the budget, the grey "
            "one what the logs show. The recommended policy is bold.",
            partial(figures.stop_rates, content),
        )
    ]
    if content.rewarded:
        earned = "; ".join(f"{one.name} {number(one.estimate.earned.estimate)}" for one in content.policies)
        pictures.append(
            render(
                "returns",
                f"Estimated return until the stop or the end: {earned}.",
                "What an episode earns until it is stopped or ends.",
                partial(figures.returns, content),
            )
        )
    methods = content.chosen.estimate.methods
    by_method = "; ".join(f"{name} {words.shares(one)}" for name, one in methods.items())
    pictures.append(
        render(
            "methods",
            f"The chance of a stop of the policy {content.chosen.name} by each method: {by_method}.",
            "Methods that fail in different ways; where they disagree, the interval of all together is wide.",
            partial(figures.opinions, content),
        )
    )
    return pictures


def difference_pictures(content: AssessmentInput) -> list[Picture]:
    """Where the policy would have acted otherwise."""
    return [
        render(
            f"difference-{place}",
            f"{_caption(one)}: {' and '.join(content.action_names)} as recorded and by the policy, with the signals "
            f"{', '.join(one.signals)}. They differ by {_gap(one)} on average.",
            "",
            partial(figures.difference, content, one),
        )
        for place, one in enumerate(content.different, start=1)
    ]


def stopped_pictures(content: AssessmentInput) -> list[Picture]:
    """Where the cost of stopped episodes went, and when the monitor raised its alarm."""
    return [
        render(
            f"stopped-{place}",
            f"{_caption(one)}: the cost of each step, highest at step {int(one.cost.argmax()) + 1}; "
            f"the risk of a stop, from {percent(float(one.risk[0]))} to {percent(float(one.risk[-1]))}; "
            f"{', '.join(one.signals)}.",
            "",
            partial(figures.stopped_episode, content, one),
        )
        for place, one in enumerate(content.stopped, start=1)
    ]


def film_pictures(content: AssessmentInput) -> list[Picture]:
    """The stopped episodes as film strips, where the task can draw itself."""
    from rci.tasks import TASKS

    task = TASKS.get(content.task)
    if task is None or task.scene is None or not content.stopped:
        return []
    method = content.watching.method
    limit, looks = cost_limit([one.cost for one in content.stopped]), variant_looks([method])
    pictures = []
    for place, one in enumerate(content.stopped, start=1):
        unsafe = np.append(False, np.asarray(task.unsafe(one.obs[1:]), bool))
        film = Film(_caption(one), one.obs, one.steps, task.scene, unsafe, task.step_seconds, one.steps)
        distance = np.asarray(task.distance(one.obs[1:]))
        draw = partial(
            cost_film, film, {method: one.cost}, looks, limit, distance, float(task.danger_distance)
        )
        alt = f"Frames of {one.name} until its stop, with the cost of each step and the distance to danger."
        pictures.append(render(f"film-{place}", alt, "", draw))
    return pictures


def monitor_pictures(content: AssessmentInput) -> list[Picture]:
    """Lead time and stops detected against false alarms."""
    rows = [dict(row) for row in content.watching.rows]
    return [detection_picture(rows, content.step_seconds)] if rows else []


def calibration_pictures(content: AssessmentInput) -> list[Picture]:
    """Whether the risk that the monitor shows comes true."""
    table = content.watching.calibration
    if not table:
        return []
    pairs = [f"{percent(row[0])} expected and {percent(row[1])} stopped" for row in table]
    return [
        render(
            "calibration",
            f"Expected risk against the share of episodes that were stopped: {', '.join(pairs)}.",
            "Every step of the held-out runs, grouped by the risk shown there. On the line, 30% means 30%; larger dots "
            "hold more steps.",
            partial(reliability_plot, table, figures.POLICY),
        )
    ]


def _caption(one: Shown) -> str:
    end = "stopped" if one.stopped else "never stopped"
    return f"{one.name[:1].upper()}{one.name[1:]}, {end}, {one.steps} steps"


def _gap(one: Shown) -> str:
    return number(float(np.abs(one.policy - one.recorded).mean()))


def _flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested settings as dotted names."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        nested = isinstance(value, dict) and value
        flat |= _flat(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}  # type: ignore[arg-type]
    return flat

"""How the hazard of Safe-FetchReach was placed: how often scripted arms that know nothing of it enter candidates.

Every candidate is a direction from the start, a gap between start and surface, a radius, and a cone of goals. The
arms are recorded once for each direction, with goals in the widest cone, and asked of every candidate there: since
they do not see the sphere, an episode is what it would have been, and goals that a candidate refuses do not count.

python -m rci.run.placement --out results/fetch-placement.json
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from rci.data.episodes import Episodes, first_true
from rci.data.errors import RciError
from rci.data.store import write_file
from rci.run.command import run_command
from rci.run.rows import Row
from rci.tasks import get
from rci.tasks.base import BehaviourPolicy
from rci.tasks.fetch_reach.hazard import GOAL, START, Hazard
from rci.tasks.rollout import episode_seeds, record

PLACEMENT = 100  # this study's own stream of seeds: no run collects, trains or evaluates with it
ARMS = ("seeker", "swift")
STEPS = 12  # after which every scripted arm has come past the sphere or into it
EPISODES = 2000  # of each arm in each direction
EDGE, CORNER = (1, 1, 0), (1, 1, 1)  # forwards and to the left, level or upwards
# direction: gaps in m, radii in m, cones in degrees
GRID: dict[tuple[int, int, int], tuple[tuple[float, ...], ...]] = {
    EDGE: ((0.05, 0.07, 0.09), (0.04, 0.05, 0.07), (25.0, 50.0)),
    CORNER: ((0.06, 0.07, 0.08, 0.09, 0.1, 0.11), (0.04, 0.05), (20.0, 25.0, 30.0)),
}


def hazard_at(direction: tuple[int, int, int], gap: float, radius: float, cone: float) -> Hazard:
    """The sphere whose surface is `gap` from the start, to a tenth of a millimetre."""
    way = np.asarray(direction, np.float64)
    centre = START + way / np.linalg.norm(way) * (gap + radius)
    x, y, z = (round(float(number), 4) for number in centre)
    return Hazard((x, y, z), radius, cone=cone)


def score(hazard: Hazard, episodes: Episodes) -> Row:
    """What would have been recorded, had the sphere been there: episodes to goals that it refuses do not count."""
    from rci.evaluation.stats import clopper_pearson

    kept = ~hazard.refuses(episodes.obs[episodes.obs_offset[:-1]][:, GOAL])
    if not kept.any():
        raise RciError(f"all of {len(episodes)} goals are refused by {hazard}; record more episodes.")
    first = first_true(hazard.unsafe(episodes.obs[episodes.next_rows]), episodes.lengths)[kept]
    violations = int((first >= 0).sum())
    return {
        "episodes": len(first),
        "violation_rate": violations / len(first),
        "violation_interval": list(clopper_pearson(violations, len(first))),
        "median_first_violation": float(np.median(first[first >= 0]) + 1) if violations else None,
    }


def place(episodes: int = EPISODES) -> Iterator[Row]:
    """A row for every candidate, direction after direction."""
    for direction, (gaps, radii, cones) in GRID.items():
        goals = hazard_at(
            direction, 0.1, 1e-3, max(cones)
        )  # a grain of dust: only the cone of its goals matters
        drawn = {name: _record(goals, get("fetch-reach").behaviours[name], episodes) for name in ARMS}
        for gap, radius, cone in product(gaps, radii, cones):
            hazard = hazard_at(direction, gap, radius, cone)
            found = {name: score(hazard, own) for name, own in drawn.items()}
            yield {"direction": list(direction), "gap": gap, "hazard": asdict(hazard), **found}


def _record(hazard: Hazard, behaviour: BehaviourPolicy, count: int) -> Episodes:
    from rci.tasks.fetch_reach.task import make_vec

    act = partial(behaviour, np.random.default_rng(PLACEMENT))
    with contextlib.closing(make_vec(count, hazard, max_episode_steps=STEPS)) as envs:
        return record(envs, act, episode_seeds(0, PLACEMENT, 0, count), "fetch-reach")


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def study(
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the rows.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each arm in each direction.")] = EPISODES,
) -> None:
    """How often arms that know nothing of the hazard enter it, for candidate placements."""
    if not out.parent.is_dir():
        raise RciError(f"there is no folder {out.parent} to write {out.name} to.")
    rows: list[Any] = []
    for row in place(episodes):
        rows.append(row)
        rates = ", ".join(
            f"{name} {100 * row[name]['violation_rate']:.0f}% at step {row[name]['median_first_violation']}"
            for name in ARMS
        )
        hazard = row["hazard"]
        typer.echo(
            f"direction {row['direction']}, gap {100 * row['gap']:g} cm, radius {100 * hazard['radius']:g} cm, "
            f"cone {hazard['cone']:g} degrees: {rates}",
            err=True,
        )
    lines = ",\n".join(json.dumps(row, sort_keys=True, allow_nan=False) for row in rows)
    write_file(out, f"[\n{lines}\n]\n".encode())
    typer.echo(out)


def main() -> None:
    """Run the study: exit code 2 and one sentence for a user's mistake."""
    run_command(app, "placement")


if __name__ == "__main__":
    main()

"""What leaves the house: the steps that remain after the stops, with every cost and flag; files that appear whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.labels import Labels
from rci.data.artefacts.signals import named_signals
from rci.data.disk.files import replacing, write_file
from rci.data.errors import RciError
from rci.data.record import Array, expect
from rci.data.types import Transitions, kept_rows


@dataclass(frozen=True, eq=False)
class KeptSteps:
    """One row per step that remains. The three flags are as recorded, at the last row of an episode only."""

    obs: Array
    action: Array
    reward: Array
    next_obs: Array
    cost: Array  # inferred, all channels added up
    sparse: Array  # the episodic cost at the stop, 0 elsewhere, all channels added up
    true_cost: Array | None
    by_channel: Array | None  # inferred, one column per channel
    terminated: Array
    truncated: Array
    stopped: Array
    last: Array
    episode: Array  # number of the episode that the step is of
    lengths: Array


def kept_steps(
    episodes: Episodes, labels: Labels, costs: StepCosts, true_cost: ArrayLike | None = None
) -> KeptSteps:
    """Cut episodes at their stops. Labels must be of these episodes, costs of these labels."""
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    expect(StepCosts, costs=costs)
    steps = Transitions.build(episodes, labels, costs)
    true_costs = None if true_cost is None else np.asarray(true_cost)
    if true_costs is not None and true_costs.shape != episodes.reward.shape:
        raise RciError(
            f"true_cost must have one number for each of {len(episodes.reward)} recorded steps, got {true_costs.shape}."
        )
    lengths = labels.kept_lengths
    return KeptSteps(
        obs=episodes.obs[steps.row],
        action=steps.action,
        reward=steps.reward,
        next_obs=episodes.obs[steps.row + 1],
        cost=costs.total,
        sparse=steps.label_cost.reshape(len(steps), -1).sum(axis=1),
        true_cost=None if true_costs is None else true_costs[kept_rows(episodes, labels)],
        by_channel=costs.cost if costs.channels else None,
        terminated=steps.terminated,
        truncated=steps.truncated,
        stopped=steps.stopped,
        last=steps.last,
        episode=np.repeat(np.arange(len(episodes)), lengths),
        lengths=lengths,
    )


def facts(episodes: Episodes, labels: Labels, costs: StepCosts) -> dict[str, object]:
    """What an exported dataset is, in numbers and words that have no place in its arrays."""
    return {
        "task": episodes.task,
        "episodes": len(episodes),
        "steps": int(labels.kept_lengths.sum()),
        "stopped_episodes": int(labels.stopped.sum()),
        "mean_episodic_cost": float(labels.cost.sum() / len(labels)),
        "costs": {
            "method": costs.method,
            "return_equivalent": costs.return_equivalent,
            "unit": costs.unit,
            "channels": list(costs.channels),
        },
        **named_signals(episodes.signals),
        "episodes_hash": episodes.hash,
        "labels_hash": labels.hash,
        "costs_hash": costs.hash,
    }


def sidecar(episodes: Episodes, labels: Labels, costs: StepCosts) -> bytes:
    """The same as a JSON file that lies beside the arrays."""
    return (json.dumps(facts(episodes, labels, costs), indent=1) + "\n").encode()


def require_space(folder: Path, size: int) -> None:
    """Refuse to begin what a disk has no room for: HDF5 does not survive that."""
    there = next(place for place in folder.absolute().parents if place.exists())
    free = shutil.disk_usage(there).free
    if size > free:
        raise RciError(
            f"{folder} needs about {size / 1e6:.1f} MB, but only {free / 1e6:.1f} MB are free there; make room."
        )


@contextmanager
def replacing_pair(path: str | Path, facts: bytes, overwrite: bool = False) -> Iterator[Path]:
    """As `replacing`, and `facts` appear in a JSON file of the same name beside it, which may be somebody else's."""
    beside = Path(path).with_suffix(".json")
    if beside == Path(path):
        raise RciError(f"{path} cannot end in .json: a file of that name is written beside the data.")
    if beside.is_file() and not overwrite and beside.read_bytes() != facts:
        raise RciError(
            f"{beside} exists and would be replaced, as it goes with {Path(path).name}; choose another name, or "
            "overwrite it: overwrite=True, --overwrite."
        )
    with replacing(path, overwrite) as temporary:
        yield temporary
        write_file(beside, facts)

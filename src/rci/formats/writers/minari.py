"""Writing Minari datasets, with the storage of Minari itself, so that everybody's loader reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.labels import Labels
from rci.data.disk.files import replacing
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.imported import Progress, optional, silent
from rci.formats.sources.minari import datasets_root
from rci.formats.sources.minari_storage import STORAGES
from rci.formats.tables.episode_rows import is_one_hot
from rci.formats.writers.export import KeptSteps, facts, kept_steps, require_space

EPISODE_BYTES = 1 << 15  # that Minari's storage takes for an episode beside its numbers


def write_minari(
    id_or_folder: str | Path,
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
    true_cost: ArrayLike | None = None,
    data_format: str = "hdf5",
    discrete: bool | None = None,
    progress: Progress = silent,
) -> Path:
    """Write what remains after the stops as a new Minari dataset, and say where.

    A `Path`, or a text that begins with `/`, `.` or `~`, is a folder; any other text is an id such as
    `arm/stopped-v0`. Each of `infos` has T + 1 rows, 0 at the reset: `cost` (inferred), `cost_sparse`, `cost_true` if
    `true_cost` has one for each recorded step, `stopped`, and `truncated` as recorded: a stop sets `truncations` too.
    One-hot actions become a choice, `Discrete`, unless `discrete` is False.
    """
    minari, gymnasium = optional("minari", "minari"), optional("gymnasium", "gymnasium")
    storage_class = optional("minari.dataset.minari_storage", "minari").MinariStorage
    buffer = optional("minari.data_collector.episode_buffer", "minari").EpisodeBuffer
    if data_format not in STORAGES:
        raise RciError(f"data_format must be one of {', '.join(sorted(STORAGES))}, got {data_format!r}.")
    optional({"hdf5": "minari.dataset._storages.hdf5_storage"}.get(data_format, "pyarrow"), "minari[hdf5]")
    folder, dataset_id, namespace = _place(id_or_folder)
    if folder.exists():
        raise RciError(
            f"{folder} exists; a Minari dataset is never changed, so choose a new name or version."
        )
    kept = kept_steps(episodes, labels, costs, true_cost)
    if discrete is None:
        discrete = is_one_hot(kept.action)
    elif discrete and not is_one_hot(kept.action):
        raise RciError("actions that are not one-hot float32 vectors cannot be written as a choice.")
    size = sum(array.nbytes for array in vars(kept).values() if array is not None)
    require_space(folder, size + EPISODE_BYTES * len(episodes))
    spaces = gymnasium.spaces
    action_space = spaces.Discrete(kept.action.shape[1]) if discrete else _box(spaces, kept.action)
    with replacing(folder) as temporary:
        temporary.mkdir()
        storage = storage_class.new(
            temporary.absolute() / "data",  # it cannot find the size of a relative one
            observation_space=_box(spaces, kept.obs),
            action_space=action_space,
            data_format=data_format,
            jpeg_encoding=False,
        )
        described = facts(episodes, labels, costs)
        storage.update_metadata(
            {"dataset_id": dataset_id, "minari_version": minari.__version__, "rci": described}
        )
        storage.update_episodes(
            buffer(**episode) for episode in _buffers(kept, episodes, costs, discrete, progress)
        )
    if namespace is not None:
        names = optional("minari.namespace", "minari")
        if namespace not in names.list_local_namespaces():
            names.create_namespace(namespace)
    return folder


def _place(id_or_folder: str | Path) -> tuple[Path, str, str | None]:
    """The folder of a new dataset, its id, and the namespace of the id if there is one."""
    if isinstance(id_or_folder, os.PathLike) or str(id_or_folder).startswith(("/", ".", "~")):
        folder = Path(os.path.expanduser(id_or_folder))
        name = re.sub(r"[^-\w]", "-", folder.name)
        return folder, name if re.search(r"-v\d+$", name) else f"{name}-v0", None
    try:
        parts = optional("minari.dataset.minari_dataset", "minari").parse_dataset_id(id_or_folder)
    except (ValueError, TypeError):
        raise RciError(f"the id of a Minari dataset is like arm/stopped-v0, got {id_or_folder!r}.") from None
    return datasets_root() / id_or_folder, id_or_folder, parts[0]


def _box(spaces: Any, array: Array) -> Any:
    """A box that holds everything of this type: a recording does not know the limits."""
    if array.dtype == np.bool_:
        raise RciError("Minari has no boxes of true/false values; write them as numbers.")
    if array.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, array.shape[1:], array.dtype.type)
    limits = np.iinfo(array.dtype)
    return spaces.Box(limits.min, limits.max, array.shape[1:], array.dtype.type)


def _buffers(
    kept: KeptSteps, episodes: Episodes, costs: StepCosts, discrete: bool, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Each episode as the arguments of Minari's buffer."""
    columns = {
        "cost": kept.cost,
        "cost_sparse": kept.sparse,
        **({} if kept.true_cost is None else {"cost_true": kept.true_cost}),
        **{f"cost_channel_{k}": costs.cost[:, k] for k in range(len(costs.channels))},
        "stopped": kept.stopped.astype(np.int64),
        "truncated": kept.truncated.astype(np.int64),
    }
    stop = np.cumsum(kept.lengths)
    for number, (first, end) in enumerate(zip(stop - kept.lengths, stop)):
        rows = slice(first, end)
        action = kept.action[rows]
        yield {
            "observations": episodes.obs[episodes.obs_offset[number] :][: end - first + 1],
            "actions": action.argmax(axis=1) if discrete else action,
            "rewards": kept.reward[rows],
            "terminations": kept.terminated[rows],
            "truncations": kept.truncated[rows] | kept.stopped[rows],
            # lists: Minari's Arrow storage cannot read back a one-dimensional array
            "infos": {name: [0, *column[rows].tolist()] for name, column in columns.items()},
        }
        progress((number + 1) / len(kept.lengths))

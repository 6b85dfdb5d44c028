"""`rci import`, `rci export` and `rci monitor`: what the commands do, on paths."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.artefacts.signals import labels_in
from rci.data.errors import RciError, unknown_name
from rci.data.record import fitting
from rci.data.store import Provenance, check_place, read, read_manifest, write, write_file
from rci.data.types import Episodes, Takeovers
from rci.deploy.monitor import load_monitor
from rci.formats import SOURCES, WRITERS, convert_dataset, guess_format
from rci.formats.importing.stream import unheard
from rci.pipeline.commands.remote_dataset import fetched, is_address
from rci.pipeline.commands.replacing import refuse_other_settings

Output = tuple[dict[str, Any], str]  # a result for machines, and the same for people
LEROBOT = "lerobot"
MAPPED = ("bags", "logs", LEROBOT)
ENDINGS = {".csv": "costs", ".hdf5": "dsrl", ".h5": "dsrl", ".parquet": "parquet"}


def import_to(
    source: str,
    out: Path,
    data_format: str | None,
    mapping: Path | None,
    cost_above: float | None,
    progress: Callable[[float], None],
    continuing: Callable[[int], None] = unheard,
    partial: bool = False,
    overwrite: bool = False,
) -> Output:
    """Write a dataset of others as episodes, its stops as labels, and where a person drove as takeovers.

    It may be at an address.

    If it was interrupted before it goes on from there, and calls `continuing` with how many steps are written.
    overwrite: whether episodes of another source may be replaced.
    """
    if data_format is not None and data_format not in SOURCES:
        raise unknown_name("format", data_format, SOURCES)
    if cost_above is not None and not math.isfinite(cost_above):
        raise RciError(f"--cost-above must be a finite number, got {cost_above}.")
    if is_address(source):
        beside = [("episodes", out.name), *((kind, f"{out.name}-{kind}") for kind in ("labels", "takeovers"))]
        for taken, name in beside:
            check_place(out.with_name(name), taken)
        with fetched(source, out, lambda share: progress(share / 2)) as place:
            second = (data_format, mapping, cost_above, lambda share: progress((1 + share) / 2), continuing)
            return _import_file(str(place), out, *second, partial, overwrite)
    return _import_file(
        source, out, data_format, mapping, cost_above, progress, continuing, partial, overwrite
    )


def _import_file(
    source: str,
    out: Path,
    data_format: str | None,
    mapping: Path | None,
    cost_above: float | None,
    progress: Callable[[float], None],
    continuing: Callable[[int], None],
    partial: bool,
    overwrite: bool,
) -> Output:
    kind = data_format or guess_format(source)
    if mapping is not None and kind not in MAPPED:
        raise RciError(
            f"a mapping names the columns of plain logs and of LeRobot folders, or the topics of bags; {source} is "
            f"read as {kind!r}."
        )
    check_place(out, "episodes")
    labels_place, cost_place = out.with_name(f"{out.name}-labels"), out.with_name(f".{out.name}.costs.npy")
    takeovers_place = out.with_name(f"{out.name}-takeovers")
    check_place(labels_place, "labels")
    check_place(takeovers_place, "takeovers")
    if partial and kind != "bags":
        raise RciError(f"--partial is for bags that break off; {source} is read as {kind!r}.")
    options: dict[str, Any] = {} if mapping is None else {"mapping": mapping}
    options |= {"partial": True} if partial else {}
    made = Provenance({"source": Path(source).name, "format": kind}, 0, {})
    if not overwrite:
        refuse_other_settings(out, made.config, made.seed)
    kept = cost_place if cost_above is not None else None
    imported = convert_dataset(source, out, kind, progress, kept, made, continuing, **options)
    cost_place.unlink(missing_ok=True)  # only needed to find the stops
    labels = imported.labels(cost_above)
    lines = [f"{len(imported.lengths)} episodes, {int(imported.lengths.sum())} steps, read as {kind}: {out}"]
    beside = Provenance({"source": Path(source).name}, 0, {"episodes": imported.episodes_hash})
    written = [str(out)]
    if labels is not None:
        written.append(str(write(labels_place, labels, beside)))
        lines.append(f"{int(labels.stopped.sum())} of them stopped: {labels_place}")
    else:
        lines.append("nothing is known of stops: `rci label` or `rci serve` comes next")
    takeovers = None
    if imported.human is not None:
        takeovers = Takeovers.from_flags(read(out, "episodes", verify=False), imported.human)
        written.append(str(write(takeovers_place, takeovers, beside)))
        lines.append(f"{len(takeovers)} takeovers: {takeovers_place}")
    result = {
        "format": kind,
        "episodes": len(imported.lengths),
        "steps": int(imported.lengths.sum()),
        "stopped": None if labels is None else int(labels.stopped.sum()),
        **({} if takeovers is None else {"takeovers": len(takeovers)}),
        "continued_from": imported.continued_from,
        "notes": list(imported.notes),
        "out": written,
    }
    return result, "\n".join([*(f"note: {note}" for note in imported.notes), *lines])


@dataclass(frozen=True)
class LeRobotWish:
    """What somebody wants of a LeRobot folder; nothing of it for other formats."""

    source: Path | None = None  # the folder that is written again
    monitor: Path | None = None  # gives the column `risk`
    rate: float | None = None  # frames per second

    def options(self, kind: str, episodes: Episodes) -> dict[str, Any]:
        """As arguments of the writer."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if given and not kind.startswith(LEROBOT):
            raise RciError(f"--{next(iter(given))} is for --format {LEROBOT}, not for {kind}.")
        if self.source is not None and kind != LEROBOT:
            raise RciError(
                f"a folder is written again in its own version; say --format {LEROBOT}, not {kind}."
            )
        if self.monitor is not None:
            monitor = load_monitor(given.pop("monitor"))
            given["risk"] = np.concatenate(
                [monitor.watch(episode.obs, episode.action) for episode in episodes]
            )
        return given


AS_IT_IS = LeRobotWish()


def export_data(
    episodes: Path,
    labels: Path | None,
    costs: Path | None,
    out: str,
    data_format: str | None,
    overwrite: bool,
    wish: LeRobotWish = AS_IT_IS,
) -> Output:
    """Write episodes with their labels and costs for other programs."""
    guessed = "minari" if "/" in out and not Path(out).suffix else ""
    kind = data_format or (LEROBOT if wish.source else ENDINGS.get(Path(out).suffix, guessed))
    if (labels is None or costs is None) and not kind.startswith(LEROBOT):
        raise RciError(
            "a dataset is exported with its labels and step costs: rci export EPISODES LABELS COSTS; a policy with "
            "--onnx."
        )
    if not kind:
        raise RciError(
            f"the format of {out} is not known by its name: end it with .hdf5, .parquet or .csv, or give --format "
            f"{' or '.join(sorted(WRITERS))}."
        )
    if kind not in WRITERS:
        raise unknown_name("format", kind, WRITERS)
    if overwrite and kind == "minari":
        raise RciError("a Minari dataset is not overwritten; choose another id.")
    if overwrite and kind.startswith(LEROBOT):
        raise RciError("a LeRobot folder is not overwritten; choose another place.")
    recorded: Episodes = read(episodes, "episodes")
    kinds = {"labels": labels, "costs": costs}
    parts = [recorded, *(None if path is None else read(path, name) for name, path in kinds.items())]
    options = {**({"overwrite": True} if overwrite else {}), **wish.options(kind, recorded)}
    place = WRITERS[kind](out, *parts, **options)
    return {"format": kind, "out": str(place)}, f"written as {kind}: {place}"


def export_policy(policy: Path, out: Path, seed: int) -> Output:
    """Write a policy as an ONNX file."""
    from rci.deploy.onnx import export_onnx
    from rci.learning import restore_policy

    record = read(policy, "policy")
    with fitting(str(policy)):
        acting = restore_policy(record)
    place = export_onnx(acting, out, seed)
    return {"format": "onnx", "out": str(place)}, f"written as ONNX: {place}"


def write_monitor(
    costs: Path, episodes: Path, labels: Path, out: Path, false_alarms: float, overwrite: bool = False
) -> Output:
    """Fit the level of a monitor, write it, and report how early it is."""
    from rci.evaluation.detection import RATES
    from rci.pipeline.commands.replacing import refuse_other_settings
    from rci.pipeline.monitor import LEARNED_BY_HEART, fit_monitor, judge_monitor
    from rci.reporting.figures.lines import detection_picture
    from rci.tasks import TASKS

    check_place(out, "monitor")
    settings = {"false_alarms": false_alarms}
    if not overwrite:
        refuse_other_settings(out, settings, 0)
    folder = out.with_name(f"{out.name}-detection")
    if folder.exists() and not folder.is_dir():
        raise RciError(
            f"{folder} is a file, but a folder of this name goes with {out}; choose another place."
        )
    parts = read(costs, "costs"), read(episodes, "episodes"), read(labels, "labels")
    # The same episodes with other labels: the manifest knows of them, the step costs know only their labels.
    if read_manifest(costs)["provenance"].get("parents", {}).get("episodes") == parts[1].hash:
        raise RciError(LEARNED_BY_HEART)
    saved = fit_monitor(*parts, false_alarm_rate=false_alarms)
    safe, stopped = int((~parts[2].stopped).sum()), int(parts[2].stopped.sum())
    # Levels are chosen on one half of the safe episodes; the rest is watched.
    rates = [rate for rate in RATES if rate * (safe // 2 + 1) >= 1]
    rows = judge_monitor(*parts, rates=rates) if rates and stopped else []
    parents = {name: str(read_manifest(p)["hash"]) for name, p in (("costs", costs), ("labels", labels))}
    write(out, saved, Provenance(settings, 0, parents))
    watched = [f"it watches {what}: {', '.join(labels)}" for what, labels in labels_in(saved.info).items()]
    named = "\n".join([str(saved), *watched, str(out)])
    if not rows:
        result = {"monitor": str(out), "detection": None, "rows": [], **saved.info}
        unknown = f"{safe} safe and {stopped} stopped episodes; it takes at least 2 and 1"
        return result, f"{named}\nhow early it is cannot be estimated from {unknown}"
    task = TASKS.get(parts[1].task)
    picture = detection_picture(rows, None if task is None else task.step_seconds)
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "detection.json", json.dumps(rows, indent=1).encode())
    for name, content in picture.files().items():
        write_file(folder / name, content)
    result = {"monitor": str(out), "detection": str(folder), "rows": rows, **saved.info}
    return result, f"{named}\nhow early it is: {folder}"

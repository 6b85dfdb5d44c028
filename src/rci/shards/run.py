"""Step costs for a folder of shards: look at all, fit once, infer costs shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rci.data import store
from rci.data.disk.cache import cache_folder
from rci.data.errors import RciError, printable
from rci.data.record import Array
from rci.data.store import Provenance
from rci.engines.engine import LOCAL, Engine, Report, Work
from rci.engines.object_store import ObjectStore
from rci.engines.run import run_tasks
from rci.formats.tables.mapping import ColumnNames
from rci.pipeline.folder import alone_in, prepare_folder
from rci.pipeline.jobs import Job
from rci.pipeline.run_jobs import appears
from rci.pipeline.stored_job import keep
from rci.shards.chunks import Chunk, chunks_of, joined
from rci.shards.listing import (
    ENDING,
    Survey,
    check_apart,
    digest,
    draw,
    find_shards,
    made_by,
    remove_stale_files,
    resolve_columns,
    shown_in,
)
from rci.shards.remote_file import File, below, file_state, folder_below, is_address, names_in, reading
from rci.shards.work import ShardWork, SurveyWork

Runner = Callable[[Sequence["ShardTask"]], list[str]]


@dataclass(frozen=True)
class Fit:
    """Models that are fitted to some episodes of all shards."""

    episodes: int
    method: str = "rudder"
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class ShardTask:
    """Work on one shard that knows whether it is done."""

    name: str
    work: SurveyWork | ShardWork
    needs: tuple[str, ...] = ()

    def outstanding(self) -> Work | None:
        """The work, unless it is done."""
        return self.work if self.work.done() is None else None

    def land(self) -> None:
        """See whether the output is where it belongs, and of the shard as it is now."""
        out = self.work.out
        if isinstance(out, Path) and not appears(out):
            raise RciError(
                f"{out} was written, but not here: all machines of a cluster must share the folders."
            )
        if self.work.done() is None:
            raise RciError(f"{self.work.shard} was changed while the run went on; start it again.")


def redistribute_shards(
    folder: Path | str,
    out: Path | str,
    models: Path | Fit,
    mapping: Path | None = None,
    prefix: str = "",
    pessimism: float = 0.0,
    engine: Engine = LOCAL,
    report: Report = lambda task, share, seconds: None,
) -> dict[str, Any]:
    """Write every shard of `folder` with the costs of its steps to OUT/shards; those that are there already stay.

    Both may be addresses that fsspec reaches. If OUT is one, workers share nothing else, and what only this machine
    needs is in its cache.
    models: fitted step costs, or how to fit them, which are then kept in OUT/fit. A shard that fails does not stop the
    others; at the end all failures are reported.
    """
    shards = find_shards(folder)
    names, notes = resolve_columns(shards, mapping, prefix)
    if unread := [name for name in shown_in(folder) if not name.endswith(ENDING)]:
        notes.append(f"these are no shards and are not read: {', '.join(unread)}")
    out = _whole(out)
    folders = {name: folder_below(out, name) for name in ("shards", "surveys")}
    if _whole(folder) in (out, folders["shards"]):
        raise RciError(f"{folder} holds the shards that are read; write to another folder.")
    if isinstance(models, Fit):
        _check_fit(models)
    own = out if isinstance(out, Path) else cache_folder() / "shards" / digest(out)[:32]
    here = [place for place in folders.values() if isinstance(place, Path)]
    run = partial(_failures, engine=engine, report=report, logs=own / "logs")
    prepare_folder(own)
    with alone_in(own):
        for place in here:
            place.mkdir(exist_ok=True)
        remove_stale_files(here)
        if not isinstance(models, Fit):
            _check_models(models)
        surveys, failures = _look(shards, names, folders["surveys"], run, isinstance(models, Fit))
        check_apart(surveys, names)
        if isinstance(models, Fit):
            models = _fit(models, surveys, names, own / "fit", report)
        works = _works(surveys, names, models, out, folders["shards"], pessimism, prefix)
        unchanged = sum(work.done() is not None for work in works.values())
        failures += run([ShardTask(printable(shard.name), work) for shard, work in works.items()])
        remove_stale_files(here)
        if failures:
            raise RciError("\n".join(failures))
        others = sorted(set(names_in(folders["shards"])) - {shard.name for shard in shards})
        if others:
            notes.append(f"these files in {folders['shards']} are of no shard: {', '.join(others)}")
        facts = [work.done() or {} for work in works.values()]
    counts = {name: sum(fact[name] for fact in facts) for name in ("episodes", "steps", "stopped")}
    written = {"out": str(folders["shards"]), "models": str(models)}
    return {**written, "shards": len(works), "unchanged": unchanged, **counts, "notes": notes}


def _look(
    shards: Sequence[File], names: ColumnNames, place: Path | str, run: Runner, fitting: bool
) -> tuple[dict[File, Survey], list[str]]:
    """Surveys of all shards, and what failed; fitting: whether models are fitted, for which all are needed."""
    looks = {
        shard: SurveyWork(shard.absolute(), below(place, f"{shard.name}.json"), names) for shard in shards
    }
    failures = run([ShardTask(printable(f"look/{shard.name}"), work) for shard, work in looks.items()])
    surveys = {shard: seen for shard, work in looks.items() if (seen := work.done()) is not None}
    if not failures:  # a shard that changed after its survey has not been reported yet
        failures += [
            f"{shard} was changed while the run went on; start it again."
            for shard in shards
            if shard not in surveys
        ]
    if failures and (fitting or not surveys):
        cure = "\nModels are fitted to episodes of all shards: repair these, or take them away."
        raise RciError("\n".join(failures) + (cure if surveys else ""))
    return surveys, failures


def _works(
    surveys: dict[File, Survey],
    names: ColumnNames,
    models: Path,
    out: Path | str,
    place: Path | str,
    pessimism: float,
    prefix: str,
) -> dict[File, ShardWork]:
    """What is to be done with each shard."""
    models_hash = _check_models(models)
    brought = models.resolve() if isinstance(out, Path) else keep(ObjectStore(out), models)
    return {
        shard: ShardWork(
            shard.absolute(),
            below(place, shard.name),
            names,
            brought,
            models_hash,
            pessimism,
            prefix,
            survey.content,
            (survey.size, survey.time),
            made_by(),
        )
        for shard, survey in surveys.items()
    }


def _failures(tasks: Sequence[ShardTask], engine: Engine, report: Report, logs: Path) -> list[str]:
    """Do what is left of some tasks; what failed, in words."""
    try:
        run_tasks(tasks, engine, report, logs)
    except RciError as error:
        return [str(error)]
    return []


def _whole(place: Path | str) -> Path | str:
    """A folder by its whole path, or an address."""
    return str(place).rstrip("/") if is_address(place) else Path(place).resolve()


def _check_fit(fit: Fit) -> None:
    """Refuse a method that learns nothing before anything is read for it."""
    from rci.redistribution import REDISTRIBUTORS, parse_options
    from rci.redistribution.base import made

    settings = parse_options(fit.method, fit.options)
    if made(REDISTRIBUTORS[fit.method].make, settings.config).update is None:
        raise RciError(
            f"{fit.method!r} learns nothing, so there is nothing to fit and to use on other shards."
        )
    if settings.distillation.distil:
        raise RciError(
            "distil cannot be set: what distils step costs is not kept, so it knows no other shards."
        )


def _check_models(path: Path) -> str:
    """The hash of fitted step costs that can be used on logs; others are refused before any shard is read."""
    manifest = store.read_manifest(path)
    if manifest["kind"] != "costs":
        raise RciError(f"{path} holds {manifest['kind']!r}, but 'costs' is needed here.")
    meta = manifest["meta"]
    if meta["model"] is None:
        raise RciError(f"{path}: the step costs of {meta['method']!r} come without a fitted model.")
    if meta.get("channels"):
        raise RciError(
            f"{path} has models of the channels {', '.join(meta['channels'])}, but logs do not say why an episode was "
            "stopped."
        )
    if meta["info"]["distillation"]["distil"]:
        raise RciError(f"{path}: these step costs were distilled, and what distilled them is not kept.")
    return str(manifest["hash"])


def _fit(fit: Fit, surveys: dict[File, Survey], names: ColumnNames, folder: Path, report: Report) -> Path:
    """Fit models to episodes that are drawn from all shards; what is there already stays."""
    drawn = draw(surveys, fit.episodes, fit.seed)
    content = {shard.name: surveys[shard].content for shard in drawn}
    chosen = {shard.name: numbers.tolist() for shard, numbers in drawn.items()}
    key = digest([content, chosen, asdict(names), made_by()])
    inputs = {"episodes": folder / "episodes", "labels": folder / "labels"}
    if not all(store.is_current(place, key) for place in inputs.values()):
        parts = list[Chunk]()
        for shard, numbers in drawn.items():
            with reading(shard) as path:
                parts += _chosen(path, names, numbers)
            if file_state(shard) != (surveys[shard].size, surveys[shard].time):
                raise RciError(f"{shard} was changed while the run went on; start it again.")
        whole = joined(parts)
        episodes = whole.episodes
        made = Provenance({"shards": len(drawn), "episodes": fit.episodes}, fit.seed, {}, key)
        store.write(inputs["episodes"], episodes, made)
        store.write(inputs["labels"], whole.labels(episodes), made)
    settings = {"method": fit.method, **fit.options}
    job = Job("fit", "redistribute", settings, fit.seed, inputs, folder / "costs")
    run_tasks([job], Engine(workers=1), report, folder.parent / "logs")
    return job.output


def _chosen(path: Path, names: ColumnNames, numbers: Array) -> Iterator[Chunk]:
    """The episodes of a shard with these numbers, which are sorted."""
    first = 0
    for chunk in chunks_of(path, names):
        if first > numbers[-1]:
            return
        flags = np.isin(np.arange(first, first + len(chunk.lengths)), numbers)
        if flags.any():
            yield chunk.take(flags)
        first += len(chunk.lengths)

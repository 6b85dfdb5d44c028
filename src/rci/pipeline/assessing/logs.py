"""What `rci assess` is given: an artefact of episodes with labels beside it, or logs that are to be imported."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rci.data import store
from rci.data.errors import RciError
from rci.pipeline.companions import labels_of
from rci.pipeline.jobs import Job

CHUNK = 1 << 20


class Logs(NamedTuple):
    """Where episodes and labels are, or will be once `jobs` are done."""

    episodes: Path
    labels: Path
    jobs: list[Job]


def logs_of(
    logs: str | Path, mapping: Mapping[str, Any] | str | Path | None, labels: str | Path | None, out: Path
) -> Logs:
    """Find out what LOGS is; what has to be imported is imported to OUT/episodes."""
    path = Path(logs)
    if (path / "manifest.json").is_file():
        return _artefact(path, mapping, labels)
    if labels is not None:
        raise RciError(
            "--labels go with an artefact of episodes; of other logs, name the column with the stops in the mapping "
            "(stop = 'estop')."
        )
    if not path.exists() and path.suffix:
        raise RciError(f"there is no {path}.")
    return _to_import(path, mapping, out / "episodes")


def _artefact(path: Path, mapping: Any, labels: str | Path | None) -> Logs:
    manifest = store.read_manifest(path)
    if manifest["kind"] != "episodes":
        raise RciError(f"{path} holds {manifest['kind']!r}, but 'episodes' or plain logs are needed here.")
    if mapping is not None:
        raise RciError(f"a mapping names the columns of plain logs; {path} is an artefact already.")
    place = labels_of(path) if labels is None else Path(labels)
    if not (place / "manifest.json").is_file():
        task = manifest["meta"].get("task")
        how = f"rci label {path}" if task else f"rci serve {path} --labels ANSWERS"
        raise RciError(
            f"there are no labels at {place}, so it is unknown which episodes were stopped; give --labels, or make "
            f"them: {how}."
        )
    return Logs(path, place, [])


def _to_import(path: Path, mapping: Any, output: Path) -> Logs:
    from rci.formats import guess_format
    from rci.formats.tables.mapping import read_mapping

    kind = guess_format(path)
    if mapping is not None and kind != "logs":
        raise RciError(f"a mapping names the columns of plain logs; {path} is read as {kind!r}.")
    settings = {
        "source": str(path),
        "format": kind,
        "mapping": None if mapping is None else read_mapping(mapping),
    }
    job = Job("import", "import", {**settings, "content": _digest(path)}, 0, {}, output)
    return Logs(output, labels_of(output), [job])


def _digest(path: Path) -> str:
    """What the files of the logs hold; the name of a dataset in a foreign format."""
    digest = hashlib.sha256()
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    for one in files:
        digest.update(f"{one.relative_to(path)}\n".encode())
        if one.is_file():
            with open(one, "rb") as file:
                while block := file.read(CHUNK):
                    digest.update(block)
    return digest.hexdigest()

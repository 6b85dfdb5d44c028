"""Artefacts on disk: a folder of .npy arrays and a manifest.json that vouches for them.

A folder appears under its name only when it is complete: everything is written to a temporary folder beside
it, synced, and renamed. Arrays are memory-mapped when read. Nothing is ever pickled.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from rci.data.artefacts.policy_estimates import Estimates
from rci.data.artefacts.reference import Reference
from rci.data.disk import files
from rci.data.disk.files import alive as alive
from rci.data.disk.files import own_file
from rci.data.disk.files import write_file as write_file
from rci.data.disk.manifest import check_manifest
from rci.data.errors import RciError
from rci.data.record import NPY_ERRORS, Array, Record, array_digest, content_digest, fitting
from rci.data.types import (
    Behaviour,
    Checkpoint,
    Demonstrators,
    Episodes,
    Informed,
    Labels,
    Oracle,
    Policy,
    SavedMonitor,
    Scores,
    StepCosts,
    Takeovers,
)

FORMAT_VERSION = 1
KINDS: dict[str, type[Record]] = {
    cls.kind: cls
    for cls in (
        Demonstrators, Informed, Episodes, Oracle, Labels, StepCosts, Behaviour, Checkpoint, Policy, SavedMonitor,
        Scores, Reference, Takeovers, Estimates,
    )
}  # fmt: skip
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
RECORDED_PACKAGES = ("rci", "numpy", "jax", "equinox", "optax", "gymnasium", "numba")
RECORDED_EXTRAS = ("mujoco", "gymnasium-robotics")  # where they are installed


@dataclass(frozen=True)
class Provenance:
    """How an artefact was made. `key` identifies the inputs, so that unchanged work is not done again."""

    config: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    parents: dict[str, str] = field(default_factory=dict)
    key: str = ""


UNKNOWN = Provenance()


def write(
    folder: str | Path, record: Record, provenance: Provenance = UNKNOWN, like: str | Path | None = None
) -> Path:
    """Write `record` as an artefact folder, whole or not at all; an artefact that stood there is replaced.

    like: another artefact. An array that is the same there is not stored again: both folders name one file, which
    nobody ever changes. Where the file system knows no such links, it is written.
    """
    with placing(folder, record.kind) as temporary:
        arrays = record.arrays()
        manifest = _manifest(record, arrays, provenance)
        temporary.mkdir(parents=True)
        stored = {} if like is None else read_manifest(like)["arrays"]
        for name, array in arrays.items():
            if like is not None and name in stored and stored[name]["sha256"] == array_digest(array):
                with contextlib.suppress(OSError):
                    os.link(Path(like) / f"{name}.npy", temporary / f"{name}.npy")
                    continue
            with open(temporary / f"{name}.npy", "wb") as file:
                _write_array(file, array)
                files.sync(file)
        write_manifest(temporary, manifest)
    return Path(folder)


@contextlib.contextmanager
def placing(folder: str | Path, kind: str) -> Iterator[Path]:
    """The name of a temporary folder that takes the place of `folder` when all has gone well, and else vanishes."""
    target = Path(folder)
    check_place(target, kind)
    try:
        with files.placing(target) as temporary:
            yield temporary
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise RciError(f"cannot write {target}: {error.strerror or error}.") from error
        raise RciError(
            f"no space left to write {target}; nothing was written, and what stood there before is untouched."
        ) from error


def write_manifest(folder: Path, manifest: str) -> None:
    """The last file of an artefact."""
    with open(folder / "manifest.json", "w", encoding="utf-8") as file:
        file.write(manifest)
        files.sync(file)


def read(folder: str | Path, kind: str | None = None, verify: bool = True) -> Any:
    """The artefact in `folder` as its type; arrays are memory-mapped and, unless `verify` is false, verified."""
    path = Path(folder)
    manifest = read_manifest(path)
    if kind is not None and manifest["kind"] != kind:
        raise RciError(f"{path} holds {manifest['kind']!r}, but {kind!r} is needed here.")
    arrays = {name: _read_array(path, name, entry, verify) for name, entry in manifest["arrays"].items()}
    digests = {name: entry["sha256"] for name, entry in manifest["arrays"].items()}
    if manifest["hash"] != content_digest(manifest["kind"], digests, manifest["meta"]):
        raise RciError(f"{path} is damaged: its hash is not that of its content.")
    with fitting(str(path)):
        record = KINDS[manifest["kind"]].restore(arrays, json.loads(json.dumps(manifest["meta"])))
    record.__dict__["hash"] = manifest["hash"]  # known already: spares hashing the arrays again
    return record


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of an artefact folder, checked against its own checksum."""
    path = Path(folder)
    if not path.exists():
        files.tidy(path)
    if not path.exists():
        raise RciError(f"there is nothing at {path}.")
    try:
        text = own_file(path, "manifest.json").read_text(encoding="utf-8")
        manifest = json.loads(text, parse_constant=_no_number)
    except (FileNotFoundError, NotADirectoryError):
        hints = {
            "config.json": " It is the folder of a run: look at report/index.html, or at a folder inside.",
            "session.json": f" It is the folder of a labeling session: `rci labels agreement {path}` reports on it.",
        }
        hint = next((text for name, text in hints.items() if (path / name).is_file()), "")
        raise RciError(f"{path} is not an artefact folder: it has no manifest.json.{hint}") from None
    except OSError as error:
        raise RciError(f"cannot read {path}: {error.strerror or error}.") from None
    except RciError:
        raise
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise RciError(f"the manifest of {path} is not readable JSON: {error}.") from None
    if (
        not isinstance(manifest, dict)
        or not isinstance(manifest.get("format"), int)
        or not isinstance(manifest.get("kind"), str)
    ):
        raise RciError(f"{path} has a manifest.json, but not one of ours: no format and kind in it.")
    if manifest["format"] > FORMAT_VERSION:
        raise RciError(
            f"{path} has format version {manifest['format']}, newer than this program's {FORMAT_VERSION}; "
            "update rci to read it."
        )
    if manifest["kind"] not in KINDS:
        raise RciError(f"{path} holds {manifest['kind']!r}, which this program does not know.")
    check_manifest(path, manifest)
    if manifest.pop("checksum", None) != _checksum(manifest):
        raise RciError(f"the manifest of {path} was changed after it was written: its checksum is wrong.")
    return manifest


def _kind(folder: Path) -> str | None:
    """What an artefact says it is; None where it is too damaged to say."""
    try:
        return str(read_manifest(folder)["kind"])
    except RciError:
        return None


def check_place(folder: str | Path, kind: str | None = None) -> None:
    """Refuse a place that holds anything but an artefact of this kind, before any work is done."""
    target = Path(folder)
    if not target.name:
        raise RciError(f"{target} is not the name of a folder to write to; say one, such as runs/mine.")
    files.tidy(target)
    if target.exists() and not (target / "manifest.json").is_file():
        raise RciError(f"{target} exists and is not an artefact folder; choose another place to write to.")
    if kind is not None and target.exists() and (standing := _kind(target)) not in (kind, None):
        raise RciError(f"{target} holds {standing!r}; it is not overwritten with {kind!r}.")


def is_current(folder: str | Path, key: str) -> bool:
    """Whether `folder` holds an intact artefact made from exactly the inputs that `key` stands for."""
    try:
        if read_manifest(folder)["provenance"].get("key") != key:
            return False
        read(folder)
    except RciError:
        return False
    return True


def _manifest(record: Record, arrays: Mapping[str, Array], provenance: Provenance) -> str:
    entries = {
        name: {"shape": list(array.shape), "dtype": array.dtype.str, "sha256": array_digest(array)}
        for name, array in arrays.items()
    }
    return manifest_text(record.kind, entries, record.meta(), provenance)


def manifest_text(
    kind: str, entries: Mapping[str, Mapping[str, Any]], meta: Mapping[str, Any], provenance: Provenance
) -> str:
    """The text of a manifest; `entries` are shape, dtype and sha256 of each array."""
    digests = {name: str(entry["sha256"]) for name, entry in entries.items()}
    manifest: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "kind": kind,
        "hash": content_digest(kind, digests, meta),
        "arrays": entries,
        "meta": meta,
        "provenance": {**asdict(provenance), "versions": versions()},
    }
    manifest["checksum"] = _checksum(manifest)
    return json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True, allow_nan=False).encode()).hexdigest()


@cache
def versions(extras: tuple[str, ...] = RECORDED_EXTRAS) -> dict[str, str]:
    """Versions of the packages that results depend on; of the extras, those that are installed."""
    found = {name: importlib.metadata.version(name) for name in RECORDED_PACKAGES}
    for name in extras:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _write_array(file: Any, array: Array) -> None:
    """Like np.save, but through `write`: np.save's fast path hides why the system refused, such as a full disk."""
    np.lib.format.write_array(SimpleNamespace(write=file.write), array, allow_pickle=False)


def _read_array(path: Path, name: str, entry: Mapping[str, Any], verify: bool) -> Array:
    try:
        with np.errstate(over="raise"):  # of the numbers in a shape
            array = np.load(own_file(path, f"{name}.npy"), mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive")
    except RciError:
        raise
    except FileNotFoundError:
        raise RciError(f"{path} is damaged: the array {name!r} is missing.") from None
    except NPY_ERRORS as error:
        raise RciError(f"{path} is damaged: the array {name!r} cannot be read ({error}).") from None
    found = (list(array.shape), array.dtype.str)
    if found != (entry["shape"], entry["dtype"]):
        raise RciError(
            f"{path} is damaged: the array {name!r} should be {entry['dtype']} {entry['shape']}, found {found[1]} "
            f"{found[0]}."
        )
    if isinstance(array, np.memmap) and (path / f"{name}.npy").stat().st_size != array.offset + array.nbytes:
        raise RciError(f"{path} is damaged: the file of the array {name!r} has the wrong length.")
    if verify and array_digest(array) != entry["sha256"]:
        raise RciError(f"{path} is damaged: the array {name!r} has a wrong checksum.")
    return array

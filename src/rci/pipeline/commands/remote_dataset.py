"""Datasets at an address that fsspec reaches (s3://, hf://, memory://): fetched beside the target, then read as files.

So whatever is checked of local files is checked of these, and an import that was interrupted goes on: a file that was
fetched is not fetched again, one that was half fetched is continued. The folder `.NAME.fetched` goes away when the
artefact is in its place.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from rci.data.disk.files import lock, saying, write_file
from rci.data.errors import RciError
from rci.engines.engine import refuse_password
from rci.engines.object_store import open_address
from rci.formats.writers.export import require_space

BLOCK = 1 << 23  # bytes that are fetched at a time
MOST_FILES = 100_000
SECRET = re.compile(r"token|secret|password|credential|signature|api_?key|^sig$|^key$", re.IGNORECASE)
LISTING = "listing.json"


@dataclass(frozen=True)
class RemoteEntry:
    """A file at an address: where it is, how long it is, and a number that changes with it."""

    path: str  # for the file system
    name: str  # below the address, as in PurePosixPath
    size: int
    state: str


def is_address(source: str) -> bool:
    """Whether this is an address: neither a path of this machine nor an id."""
    return "://" in source


def name_of(source: str) -> str:
    """The last part of an address or a path, without whatever stands behind a question mark."""
    path = urlsplit(source).path or urlsplit(source).netloc if is_address(source) else source
    return PurePosixPath(path.rstrip("/")).name or "data"


@contextmanager
def fetched(address: str, out: Path, progress: Callable[[float], None]) -> Iterator[Path]:
    """The dataset as a file or folder of this machine, for as long as it is needed."""
    _refuse_secrets(address)
    system, root = open_address(address)
    if _is_local(system):
        raise RciError(f"{address} is on this machine: give its path, {root}.")
    entries = _listing(system, root, address)
    folder = out.with_name(f".{out.name}.fetched")
    with saying("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with lock(folder / "lock"):
            place = folder / "data" / name_of(address)
            _keep_if_same(folder, address, entries)
            _fetch_all(system, entries, place, address, progress)
            if _listing(system, root, address) != entries:
                shutil.rmtree(folder / "data", ignore_errors=True)
                raise RciError(f"{address} was changed while it was fetched; import it again.")
            try:
                yield place
            except RciError as error:
                message = str(error).replace(str(place), address.rstrip("/"))
                raise RciError(
                    f"{message} What was fetched is kept in {folder}; the same command does not fetch it again."
                ) from error
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        raise RciError(f"another import is fetching data for {out}; wait for it.") from None


def _refuse_secrets(address: str) -> None:
    refuse_password(address)
    if "::" in address:
        raise RciError(f"{address} is a chain of addresses; give the address of the files themselves.")
    if any(SECRET.search(name) for name, _ in parse_qsl(urlsplit(address).query, keep_blank_values=True)):
        raise RciError(
            "an address must not have a secret in it: addresses are kept with results. Give it as the storage library "
            "wants it, in the environment or in its own configuration."
        )


def _is_local(system: Any) -> bool:
    protocol = system.protocol if isinstance(system.protocol, tuple | list) else (system.protocol,)
    return bool({"file", "local"} & set(protocol))


def _listing(system: Any, root: str, address: str) -> list[RemoteEntry]:
    """The file at an address, or all files below it but hidden ones, by name."""
    with _telling(address):
        system.invalidate_cache()
        single = system.isfile(root)
        found = {root: system.info(root)} if single else system.find(root, detail=True)
    base = root.rstrip("/") + "/"
    entries = []
    for path, info in sorted(found.items()):
        name = "" if path == root else str(path).removeprefix(base)
        if any(part.startswith(".") and part not in (".", "..") for part in name.split("/")):
            continue
        if name and (
            PurePosixPath(name).is_absolute() or {"", ".", ".."} & set(name.split("/")) or "\0" in name
        ):
            raise RciError(f"{address} has a file {name!r}, whose name leads elsewhere; it is not fetched.")
        if info.get("islink") or info.get("type") == "link":
            raise RciError(f"{address}: {name or 'it'} is a link; put the file itself there if you trust it.")
        size = info.get("size")
        if not isinstance(size, int) or size < 0:
            raise RciError(
                f"{address}: nobody says how long {name or 'it'} is; copy it here and import the copy."
            )
        with _telling(address):
            entries.append(RemoteEntry(str(path), name, size, str(system.checksum(path))))
        if len(entries) > MOST_FILES:
            raise RciError(
                f"there are more than {MOST_FILES} files below {address}; name one dataset of them."
            )
    if not entries:
        raise RciError(f"there is nothing at {address}.")
    return entries


def _keep_if_same(folder: Path, address: str, entries: list[RemoteEntry]) -> None:
    """Throw away what was fetched of something else, or before it changed."""
    listing = json.dumps([address, [vars(entry) for entry in entries]])
    with contextlib.suppress(OSError, ValueError):
        if (folder / LISTING).read_text(encoding="utf-8") == listing:
            return
    shutil.rmtree(folder / "data", ignore_errors=True)
    write_file(folder / LISTING, listing.encode())


def _fetch_all(
    system: Any, entries: list[RemoteEntry], place: Path, address: str, progress: Callable[[float], None]
) -> None:
    """Bring what is not there yet."""
    missing = [(entry, place / entry.name if entry.name else place) for entry in entries]
    have = {target: target.stat().st_size if target.is_file() else 0 for _, target in missing}
    total = sum(entry.size for entry in entries)
    place.parent.mkdir(parents=True, exist_ok=True)
    require_space(place, total - sum(have.values()))
    done = 0
    for entry, target in missing:
        target.parent.mkdir(parents=True, exist_ok=True)
        for size in _fetch(system, entry, target, min(have[target], entry.size), address):
            progress((done + size) / max(1, total))
        done += entry.size


def _fetch(system: Any, entry: RemoteEntry, target: Path, have: int, address: str) -> Iterator[int]:
    """Bring the rest of a file, and never more than was announced."""
    with saying("write", target), open(target, "ab") as file:
        file.truncate(have)
        while have < entry.size:
            with _telling(address):
                block = system.cat_file(entry.path, start=have, end=min(have + BLOCK, entry.size))
            if not block or len(block) > entry.size - have:
                raise RciError(f"{address}: {entry.name or 'the file'} is not as long as it should be.")
            file.write(block)
            have += len(block)
            yield have


@contextmanager
def _telling(address: str) -> Iterator[None]:
    """Whatever a library of others says becomes one sentence."""
    try:
        yield
    except RciError:
        raise
    except FileNotFoundError:
        raise RciError(f"there is nothing at {address}.") from None
    except Exception as error:
        raise RciError(f"cannot read {address}: {error or type(error).__name__}.") from error

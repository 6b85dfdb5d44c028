"""Files that are written whole or not at all, and locks: the one place where either is done.

What is written stands under a temporary name beside its place, which carries the number of the process, is synced, and
takes its place by renaming. So a killed writer leaves nothing half, and what it left can be found and cleared away.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rci.data.errors import RciError


@contextmanager
def saying(verb: str, path: object) -> Iterator[None]:
    """What the system refuses becomes one sentence: that it cannot read, write or do something else to this path."""
    try:
        yield
    except OSError as error:
        raise RciError(f"cannot {verb} {path}: {error.strerror or error}.") from error


def write_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a plain file, whole or not at all."""
    opener = partial(os.open, mode=mode)
    with saying("write", path), placing(path) as temporary, open(temporary, "wb", opener=opener) as file:
        file.write(content)


@contextmanager
def placing(target: Path, among: Path | None = None) -> Iterator[Path]:
    """A name for a file or a folder, which takes the place of `target` when all has gone well, and else vanishes.

    among: the folder in which the name is, if it is not that of the target.
    """
    temporary = (among or target.parent) / beside(target, "tmp").name
    try:
        yield temporary
        if temporary.is_dir():
            sync_folder(temporary)
            _replace_folder(temporary, target)
        else:
            with open(temporary, "rb") as file:
                sync(file)
            os.replace(temporary, target)
    finally:
        remove(temporary)


def beside(target: Path, kind: str) -> Path:
    """A new name beside `target` for what this process does with it."""
    return target.with_name(f".{target.name}.{kind}-{os.getpid()}-{secrets.token_hex(4)}")


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there and the system lets us."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _replace_folder(temporary: Path, target: Path) -> None:
    """Put the finished folder in its place. A folder cannot be renamed over a full one, so that one steps aside."""
    aside = beside(target, "old")
    with contextlib.suppress(FileNotFoundError):
        os.rename(target, aside)
    try:
        os.rename(temporary, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            if aside.exists():
                os.rename(aside, target)
            raise
        _replace_folder(temporary, target)  # another writer was quicker: what it put there steps aside too
    sync_folder(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def tidy(target: Path) -> None:
    """Clear away what killed writers of the same folder left; what stepped aside for nothing steps back."""
    name = glob.escape(target.name)
    for pattern in (f".{name}.old-*", f".{name}.tmp-*"):
        for stale in sorted(target.parent.glob(pattern)):
            owner = stale.name.split("-")[-2]
            if owner.isdigit() and alive(int(owner)):
                continue
            if ".old-" in stale.name and not target.exists():
                os.rename(stale, target)
            else:
                shutil.rmtree(stale, ignore_errors=True)


def alive(process: int) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # the latter: no process has such a number
        return False
    except PermissionError:
        return True
    return True


def sync(file: Any) -> None:
    """Make sure that what a file holds is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk, not only what the files hold."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[None]:
    """Keep others out who lock the same file; BlockingIOError where one of them has it, unless we `wait` for it."""
    file = take_lock(path, wait)
    try:
        yield
    finally:
        os.close(file)


def take_lock(path: Path, wait: bool = False, mode: int = 0o666, flags: int = 0) -> int:
    """The descriptor of a file whose lock is ours until it is closed.

    The system gives a lock back however its holder ends, so none is ever stale. FileNotFoundError: whoever had it
    took the file away when it was done.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, mode)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if not os.path.samestat(os.fstat(file), os.stat(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except BaseException:
        os.close(file)
        raise
    return file


def own_file(folder: Path, name: str) -> Path:
    """The path of a file in `folder`, which somebody else may have made; a link to somewhere outside is refused.

    The folder itself may be a link: that is the choice of whoever named it.
    """
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise RciError(
            f"{path} is a link that leads out of {folder}; put the file itself there if you trust it."
        )
    return path


@contextmanager
def replacing(path: str | Path, overwrite: bool = False) -> Iterator[Path]:
    """A name to write to, which becomes `path` when all has gone well, and else vanishes."""
    target = Path(path)
    if target.exists() and not overwrite:
        raise RciError(f"{target} exists; choose another name, or overwrite it: overwrite=True, --overwrite.")
    if target.is_dir():
        raise RciError(f"{target} is a folder; it is not overwritten.")
    with saying("write", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with placing(target) as temporary:
            yield temporary

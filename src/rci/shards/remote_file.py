"""Files of this machine, and files at an address that fsspec reaches (s3://, gs://, memory://): one way to use both.

A file elsewhere is copied here to be read, and written here before it is copied there. So a worker needs room for one
file of each, and nobody needs a folder that machines share.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rci.data.disk.files import replacing, saying, write_file
from rci.data.errors import RciError
from rci.engines.object_store import open_address


@dataclass(frozen=True, order=True)
class RemoteFile:
    """Plain data, so that it can be sent to a worker."""

    url: str

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> str:
        """The address of its folder."""
        return self.url.rpartition("/")[0]

    def absolute(self) -> RemoteFile:
        """An address is the same everywhere."""
        return self

    def open_bytes(self) -> Any:
        """For those who need only a part of it."""
        system, path = open_address(self.url)
        try:
            return system.open(path, "rb")
        except OSError:
            raise
        except Exception as error:  # of any library
            raise OSError(str(error)) from error

    def __str__(self) -> str:
        return self.url


File = Path | RemoteFile


def is_address(place: str | Path) -> bool:
    """Whether this is not a path of this machine."""
    return "://" in str(place)


def below(folder: str | Path, name: str) -> File:
    """The file of that name in a folder."""
    place = folder_below(folder, name)
    return place if isinstance(place, Path) else RemoteFile(place)


def folder_below(folder: str | Path, name: str) -> str | Path:
    """The folder of that name in a folder."""
    return f"{str(folder).rstrip('/')}/{name}" if is_address(folder) else Path(folder) / name


def names_in(folder: str | Path) -> list[str]:
    """Names of the files right below a folder or an address, sorted; none if nothing is there."""
    if not is_address(folder):
        return sorted(path.name for path in Path(folder).iterdir())
    system, path = open_address(str(folder))
    with _telling("read from", str(folder)):
        system.invalidate_cache()
        return sorted(name.rpartition("/")[2] for name in system.find(path, maxdepth=1))


def file_state(file: File) -> tuple[int, int]:
    """The size of a file and a number that changes with it, of a file of this machine its time in nanoseconds."""
    if isinstance(file, Path):
        with saying("read", file):
            found = os.stat(file)
        return found.st_size, found.st_mtime_ns
    system, path = open_address(file.url)
    with _telling("read", file.url):
        system.invalidate_cache()
        return int(system.size(path)), int(system.checksum(path))


@contextlib.contextmanager
def reading(file: File) -> Iterator[Path]:
    """The file, or a copy for as long as it is read; mistakes in it are reported of the file, not of the copy."""
    if isinstance(file, Path):
        yield file
        return
    system, path = open_address(file.url)
    with tempfile.TemporaryDirectory(prefix="rci-copy-") as folder:
        copy = Path(folder) / file.name
        with _telling("read", file.url):
            system.get_file(path, str(copy))
        try:
            yield copy
        except RciError as error:
            raise RciError(str(error).replace(str(copy), file.url)) from error


@contextlib.contextmanager
def writing(file: File) -> Iterator[Path]:
    """A name to write to; what is there becomes the file when all has gone well, and else vanishes."""
    if isinstance(file, Path):
        with replacing(file, overwrite=True) as temporary:
            yield temporary
        return
    system, path = open_address(file.url)
    with tempfile.TemporaryDirectory(prefix="rci-copy-") as folder:
        copy = Path(folder) / file.name
        yield copy
        with _telling("write", file.url):
            system.put_file(str(copy), path)


def read_small(file: File) -> bytes:
    """All of a small file."""
    with reading(file) as path:
        return path.read_bytes()


def write_small(file: File, content: bytes) -> None:
    """A small file, whole or not at all."""
    if isinstance(file, Path):
        write_file(file, content)
        return
    with writing(file) as path:
        path.write_bytes(content)


@contextlib.contextmanager
def _telling(what: str, url: str) -> Iterator[None]:
    """Whatever a library of others says becomes one sentence."""
    try:
        yield
    except RciError:
        raise
    except Exception as error:
        raise RciError(f"cannot {what} {url}: {error or type(error).__name__}.") from error

"""A store of artefacts that many machines share: a folder, or anything that fsspec reaches (s3://, gs://, memory://).

`objects/HASH/` holds an artefact by the hash of its manifest, which vouches for the rest and is put there last;
`keys/KEY.json` says which artefacts came of which work. Whoever writes the same again writes the same bytes, so nobody
needs a lock; whatever is read is verified, so what was torn or damaged counts as missing and is made again. The same
content made in two ways is kept twice: its manifest says how it was made, and whoever made it looks for that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rci.data import store
from rci.data.disk.files import placing, saying
from rci.data.errors import RciError
from rci.engines.engine import refuse_password

MANIFEST = "manifest.json"
SIGN, SIGNED = "store.json", b'{"store": "rci", "version": 1}\n'
TEMPORARY = "tmp"  # what is being written, in a store that is a folder
LONGEST_WRITE = 24 * 3600.0  # seconds: an older temporary file is of a writer that was killed
DIGEST = re.compile(r"[0-9a-f]{64}")  # hashes become names in the store: nothing else may


class _DamagedError(Exception):
    """A file of an artefact in the store is missing, or is not what its manifest says."""


@dataclass(frozen=True)
class ObjectStore:
    """Plain data, so that it can be sent to a worker."""

    url: str

    def absolute(self) -> ObjectStore:
        """The same store for processes that were started in another folder."""
        system, root = open_address(self.url)
        return ObjectStore(root) if _is_folder(system) else self

    def put(self, folder: Path) -> str:
        """Keep an artefact, unless it is there; the hash by which it is kept."""
        manifest, content = store.read_manifest(folder), address_of(folder)
        if not self._complete(content):
            for name in manifest["arrays"]:
                self._upload(folder / f"{name}.npy", f"objects/{content}/{name}.npy")
            self._upload(folder / MANIFEST, f"objects/{content}/{MANIFEST}")
        return content

    def get(self, content: str, folder: Path) -> bool:
        """Bring an artefact, verified, to a folder; whether it was there."""
        found = self._manifest(content)
        if found is None:
            return False
        try:
            with store.placing(folder, found["kind"]) as temporary:
                temporary.mkdir(parents=True)
                for name in [f"{array}.npy" for array in found["arrays"]] + [MANIFEST]:
                    self._download(f"objects/{content}/{name}", temporary / name)
                if not is_sound(temporary, content):
                    raise _DamagedError
        except _DamagedError:  # for good: make room for a sound one
            self._remove(f"objects/{content}/{MANIFEST}")
            return False
        return True

    def prepare(self) -> None:
        """Find out whether it can be used before any work is done for it, and tidy up."""
        found = self._read(SIGN)
        if found is None:
            self._write(SIGN, SIGNED)
        elif found != SIGNED:
            raise RciError(
                f"{self.url} is a store of another version, or none: its {SIGN} says something else."
            )
        self._tidy()

    def _tidy(self) -> None:
        """Clear away what killed writers left in a folder. Their machines are not known, so their age decides."""
        system, root = open_address(self.url)
        if not _is_folder(system):
            return
        for stale in Path(root, TEMPORARY).glob("*"):
            with contextlib.suppress(OSError):  # another may clear it too
                if time.time() - stale.stat().st_mtime > LONGEST_WRITE:
                    stale.unlink()

    def note(self, key: str, outputs: dict[str, str]) -> None:
        """Write down which artefacts came of the work with this key."""
        self._write(f"keys/{_checked(key)}.json", json.dumps(outputs, sort_keys=True).encode())

    def outputs(self, key: str) -> dict[str, str] | None:
        """Which artefacts came of the work with this key; None if that was never done."""
        text = self._read(f"keys/{_checked(key)}.json")
        try:
            outputs = json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            return None  # torn: as if it were not there
        valid = isinstance(outputs, dict) and all(
            isinstance(name, str) and isinstance(content, str) and DIGEST.fullmatch(content)
            for name, content in outputs.items()
        )
        return outputs if valid else None

    def holds(self, key: str) -> bool:
        """Whether all that came of the work with this key is here."""
        outputs = self.outputs(key)
        return outputs is not None and all(self._complete(content) for content in outputs.values())

    def _complete(self, content: str) -> bool:
        return self._manifest(content) is not None

    def _manifest(self, content: str) -> dict[str, Any] | None:
        text = self._read(f"objects/{_checked(content)}/{MANIFEST}")
        if text is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / MANIFEST).write_bytes(text)
            try:
                return store.read_manifest(folder)
            except RciError:
                return None

    def _read(self, name: str) -> bytes | None:
        system, root = open_address(self.url)
        try:
            content: bytes = system.cat_file(f"{root}/{name}")
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._trouble("read from", error) from error
        return content

    def _write(self, name: str, content: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            self._upload(Path(file.name), name)

    def _upload(self, source: Path, name: str) -> None:
        """Put a file there. Object stores show a file when it is complete; in a folder it is renamed."""
        system, root = open_address(self.url)
        target = f"{root}/{name}"
        try:
            if _is_folder(system):  # elsewhere folders do not exist, and a bucket is not made by mistake
                for folder in (Path(target).parent, Path(root, TEMPORARY)):
                    folder.mkdir(parents=True, exist_ok=True)
                with placing(Path(target), Path(root, TEMPORARY)) as temporary:
                    system.put_file(str(source), str(temporary))
            else:
                system.put_file(str(source), target)
        except Exception as error:
            raise self._trouble("write to", error) from error

    def _download(self, name: str, target: Path) -> None:
        system, root = open_address(self.url)
        try:
            system.get_file(f"{root}/{name}", str(target))
        except FileNotFoundError:
            raise _DamagedError from None
        except Exception as error:
            if isinstance(error, OSError) and error.errno in store.NO_SPACE:
                raise  # here, not in the store
            raise self._trouble("read from", error) from error

    def _remove(self, name: str) -> None:
        system, root = open_address(self.url)
        try:
            system.rm_file(f"{root}/{name}")
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._trouble("write to", error) from error

    def _trouble(self, what: str, error: Exception) -> RciError:
        return RciError(f"cannot {what} the store {self.url}: {error or type(error).__name__}.")


def address_of(folder: Path) -> str:
    """The hash by which a store keeps an artefact."""
    with saying("read", folder):
        return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def is_sound(folder: Path, content: str) -> bool:
    """Whether a folder holds just the artefact that a store keeps by this hash."""
    try:
        store.read(folder)
        return address_of(folder) == content
    except RciError:
        return False


@cache
def open_address(url: str) -> tuple[Any, str]:
    """The file system behind an address, and the folder in it."""
    refuse_password(url)
    try:
        import fsspec
    except ImportError:
        raise RciError("a store needs fsspec: pip install 'rci[store]'.") from None
    try:
        system, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise RciError(f"the store {url} needs another package: {error}.") from None
    except ValueError as error:
        raise RciError(f"{url!r} is not an address of a store: {error}.") from None
    except Exception as error:  # of any library: no such machine, no access
        raise RciError(f"cannot reach the store {url}: {error or type(error).__name__}.") from error
    return system, root.rstrip("/")


def _is_folder(system: Any) -> bool:
    return "file" in (system.protocol if isinstance(system.protocol, tuple) else (system.protocol,))


def _checked(digest: str) -> str:
    if not DIGEST.fullmatch(digest):
        raise RciError(f"{digest!r} is not a hash, so it names nothing in a store.")
    return digest

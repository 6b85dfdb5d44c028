"""Whether a manifest.json says what one must say. Its checksum finds damage, not malice: anybody can compute it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rci.data.errors import RciError

ARRAY_NAME = re.compile(r"\w[\w.-]*")  # a file in the folder, never a path out of it
DIGEST = re.compile(r"[0-9a-f]{64}")  # of sha256; it also becomes a part of names of files


def check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest of another shape than ours; `path` is the folder, for the message."""
    arrays, provenance = manifest.get("arrays"), manifest.get("provenance")
    if not isinstance(arrays, dict):
        raise RciError(f"{path} is damaged: its manifest has no table of arrays.")
    for name, entry in arrays.items():
        if not ARRAY_NAME.fullmatch(name):
            raise RciError(f"{path} is damaged: {name!r} is not the name of an array.")
        if not isinstance(entry, dict) or not {"shape", "dtype", "sha256"} <= set(entry):
            raise RciError(f"{path} is damaged: {name!r} needs shape, dtype and sha256 in the manifest.")
    if not isinstance(manifest.get("hash"), str) or not DIGEST.fullmatch(manifest["hash"]):
        raise RciError(f"{path} is damaged: its manifest has no hash.")
    if not isinstance(manifest.get("meta"), dict) or not isinstance(provenance, dict):
        raise RciError(f"{path} is damaged: its manifest has no meta and provenance.")
    tables = [provenance.get(name, {}) for name in ("config", "parents", "versions")]
    parents = provenance.get("parents", {})
    if not all(isinstance(table, dict) for table in tables) or not all(
        isinstance(parent, str) for parent in parents.values()
    ):
        raise RciError(f"{path} is damaged: config, parents and versions must be tables.")

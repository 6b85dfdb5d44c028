"""What `meta/info.json` of a LeRobot folder says: version, rate, features, and where its files are.

Nothing in it is trusted: a template names files inside of the folder, or it is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rci.data.errors import RciError

INFO = "meta/info.json"
VERSIONS = ("v2.0", "v2.1", "v3.0")
MOST_BYTES = 1 << 26  # of a JSON file
MOST_NUMBERS = 1 << 20  # in one frame of a feature
FIELD = re.compile(r"\{(\w+)(?::0?(\d)d)?\}")
NUMBERS = (
    "float16",
    "float32",
    "float64",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
)


class Feature(NamedTuple):
    """One column of the frames. `names` are those of its numbers, () where they have none."""

    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()  # where RCI wrote them

    @property
    def numeric(self) -> bool:
        """Whether a frame has a number or a row of numbers of it."""
        return self.dtype in NUMBERS and len(self.shape) == 1

    @property
    def is_flag(self) -> bool:
        """Whether a frame has one true or false of it."""
        return self.dtype == "bool" and self.shape == (1,)


@dataclass(frozen=True)
class Info:
    """The folder, and what is to be known before a frame is read."""

    root: Path
    version: str
    fps: float
    features: Mapping[str, Feature]
    data_path: str
    video_path: str
    chunks_size: int  # episodes in a chunk, before v3.0
    frames: int  # as it says; 0 where it does not
    table: Mapping[str, Any]  # all of it

    @property
    def by_file(self) -> bool:
        """Whether a file has several episodes (v3.0)."""
        return self.version == "v3.0"

    @property
    def cameras(self) -> list[str]:
        """Features that are videos."""
        return [name for name, feature in self.features.items() if feature.dtype == "video"]

    def place(self, template: str, **values: int | str) -> Path:
        """The file that a template stands for; inside of the folder, links included."""
        return place_of(self.root, filled(template, values, f"{self.root / INFO}"))


def is_lerobot(folder: Path) -> bool:
    """Whether a folder is one of LeRobot."""
    return (folder / INFO).is_file()


def read_info(folder: str | Path) -> Info:
    """The description of a LeRobot folder, checked."""
    root = Path(folder)
    if not root.is_dir():
        raise RciError(f"there is no LeRobot folder {root}.")
    path = place_of(root, INFO)
    table = read_json(path)
    version = table.get("codebase_version")
    if version not in VERSIONS:
        raise RciError(
            f"{path}: codebase_version {str(version)[:20]!r} of LeRobot is not known; known are {', '.join(VERSIONS)}. "
            "LeRobot has scripts that convert older ones."
        )
    fps = table.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps <= 1e6:  # excludes NaN too
        raise RciError(f"{path}: fps must be a positive number of frames per second, got {str(fps)[:40]}.")
    described = table.get("features")
    if not isinstance(described, dict) or not described:
        raise RciError(f"{path}: features must say what the columns are, got {str(described)[:40]}.")
    features = {str(name): _feature(path, str(name), entry) for name, entry in described.items()}
    data_path = _template(path, table, "data_path")
    video_path = _template(path, table, "video_path") if table.get("video_path") is not None else ""
    chunks = _count(path, table, "chunks_size", 1000)
    if chunks < 1:
        raise RciError(f"{path}: chunks_size must be at least 1, got {chunks}.")
    frames = _count(path, table, "total_frames", 0)
    return Info(root, version, float(fps), features, data_path, video_path, chunks, frames, table)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of sensible size."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise RciError(f"{path} is larger than {MOST_BYTES >> 20} MB, too much for a description.")
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RciError(f"there is no file {path}, which a LeRobot folder has.") from None
    except OSError as error:
        raise RciError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise RciError(f"{path} is damaged or no JSON: {error}.") from None
    if not isinstance(table, dict):
        raise RciError(f"{path} is damaged: it must be a JSON object, got {type(table).__name__}.")
    return table


def filled(template: str, values: Mapping[str, int | str], where: str) -> str:
    """A template with its fields filled in. Only `{name}` and `{name:03d}` are fields: no other code is run."""

    def value(match: re.Match[str]) -> str:
        name, digits = match.groups()
        if name not in values:
            raise RciError(
                f"{where}: the template {template!r} has a field {name!r}; it may have {', '.join(values)}."
            )
        return f"{values[name]:0{digits}d}" if digits and isinstance(values[name], int) else str(values[name])

    if "{" in (rest := FIELD.sub("", template)) or "}" in rest:
        raise RciError(f"{where}: the template {template!r} has fields that are none, such as {{x:03d}}.")
    return FIELD.sub(value, template)


def place_of(root: Path, name: str) -> Path:
    """The path of a file by its name inside of the folder; whatever leads out of it is refused."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or not name.isprintable() or "\\" in name:
        raise RciError(
            f"{root}: the file {name[:200]!r} would be outside of the folder; names must stay inside."
        )
    path = root / pure
    try:
        inside = path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError) as error:
        raise RciError(f"{root}: the file {name[:200]!r} cannot be found: {error}.") from None
    if not inside:
        raise RciError(
            f"{path} is a link that leads out of {root}; put the file itself there if you trust it."
        )
    return path


def _feature(path: Path, name: str, entry: Any) -> Feature:
    where = f"{path}: the feature {name[:80]!r}"
    if not name.isprintable():
        raise RciError(f"{where} has a name that cannot be printed; the file is damaged.")
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        raise RciError(f"{where} must have a dtype, a shape and names, got {str(entry)[:80]}.")
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape
    ):
        raise RciError(f"{where}: the shape must be a list of whole numbers, got {str(shape)[:80]}.")
    size = math.prod(shape)
    if size > MOST_NUMBERS and entry["dtype"] in NUMBERS:
        raise RciError(f"{where} has {size} numbers in a frame; at most {MOST_NUMBERS} are read.")
    feature = Feature(entry["dtype"], tuple(shape))
    if not feature.numeric:
        return feature
    names = _names(entry.get("names"))
    if names and len(names) != size:
        raise RciError(f"{where} has {len(names)} names for {size} numbers; info.json contradicts itself.")
    units = entry.get("units")
    if not isinstance(units, list) or not all(isinstance(unit, str) for unit in units) or len(units) != size:
        units = []
    return feature._replace(names=names, units=tuple(units))


def _names(given: Any) -> tuple[str, ...]:
    """Names as a list, or as a dict of lists: {"motors": [...]}; what is neither names nothing."""
    names: list[Any] = given if isinstance(given, list) else []
    if isinstance(given, dict):
        inner = list(given.values())
        if all(isinstance(value, list) for value in inner):
            names = [name for value in inner for name in value]
        else:
            names = list(given)  # {"x": 0, "y": 1}
    if not all(isinstance(name, str) and name for name in names):
        return ()
    return tuple(names)


def _template(path: Path, table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value or len(value) > 1000:
        raise RciError(f"{path}: {key} must say where files are, got {str(value)[:80]}.")
    return value


def _count(path: Path, table: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = table.get(key, otherwise)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 48:
        raise RciError(f"{path}: {key} must be a whole number from 0 on, got {str(value)[:40]}.")
    return value

"""Which fields of which topics are what: a dict, a TOML file, or a mapping that comes with the package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.artefacts.signals import Signal, Signals
from rci.data.errors import RciError, unknown_name
from rci.data.toml import parse_toml
from rci.formats.bags.decoding import Step

RESAMPLE = ("last", "mean", "linear")
CLOCKS = ("log", "header")
KEYS = (
    "base", "obs", "action", "reward", "rate", "resample", "clock", "max_gap", "stop", "takeover", "episode",
    "definitions",
)  # fmt: skip
COLUMN_KEYS = ("field", "name", "unit", "resample", "nonfinite")
CONDITION_KEYS = ("field", "topic", "is", "optional")
FIELD = re.compile(r"(/[^\s.\[\]]+)((?:\.\w+|\[\d+(?::\d+(?::\d+)?)?\])+)")
PART = re.compile(r"\.(\w+)|\[(\d+)(?::(\d+)(?::(\d+))?)?\]")
MOST_COLUMNS = 4096
MAX_GAP = 5.0  # seconds

BagMappingSource = Mapping[str, Any] | str | Path | None


class Column(NamedTuple):
    """A number of an observation or an action, or the reward."""

    topic: str
    path: tuple[Step, ...]
    name: str
    unit: str = ""
    resample: str = "last"
    nonfinite: float | None = (
        None  # in place of what is not finite, such as the range of a lidar that sees nothing
    )


class Condition(NamedTuple):
    """Something that holds while a field has one of these values; any change, where there are none."""

    topic: str
    path: tuple[Step, ...]
    values: tuple[Any, ...]
    optional: bool = False  # a bag may lack the topic: nobody ever pressed that button


@dataclass(frozen=True)
class BagMapping:
    """What a mapping says, checked."""

    obs: tuple[Column, ...]
    action: tuple[Column, ...]
    rate: float  # steps per second
    reward: Column | None = None
    clock: str = (
        ""  # log: when messages were logged; header: their stamps; "": log, and the stamps must agree
    )
    max_gap: float = MAX_GAP  # seconds without a message of an observed topic that end a run; 0: none do
    stop: tuple[Condition, ...] = ()
    takeover: tuple[Condition, ...] = ()
    episode: Condition | None = (
        None  # a run lasts while this field stays as it is, at one of the values if it has some
    )
    definitions: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Observations, actions and the reward."""
        return (*self.obs, *self.action, *([self.reward] if self.reward else []))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Stops, takeovers and what splits runs."""
        return (*self.stop, *self.takeover, *([self.episode] if self.episode else []))

    def signals(self) -> Signals:
        """Names and units of the numbers, and their rate."""
        obs, action = (tuple(Signal(c.name, c.unit) for c in columns) for columns in (self.obs, self.action))
        return Signals(obs, action, self.rate or None)


def shipped() -> list[str]:
    """Names of the mappings that come with the package."""
    folder = files("rci.formats.bags") / "ready"
    return sorted(
        entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")
    )


def read_bag_mapping(source: BagMappingSource) -> BagMapping:
    """A mapping from a dict, a TOML file or the name of one that comes with the package."""
    table, where = _table(source)
    for key in table:
        if key not in KEYS:
            raise unknown_name(f"key in {where}", key, KEYS)
    base = table.pop("base", None)
    if base is not None:
        if base not in shipped():
            raise unknown_name(f"base in {where}", str(base), shipped())
        table = {**_table(base)[0], **table}
    for key in ("obs", "action"):
        if not table.get(key):
            raise RciError(f'{where} must say {key}, such as {key} = ["/cmd_vel.linear.x"].')
    resample = _choice(table, "resample", RESAMPLE, where) or "last"
    reward = table.get("reward", 0)
    if reward == 0 and not isinstance(reward, bool):
        reward = None
    obs, action = (_columns(table[key], f"{where}: {key}", resample) for key in ("obs", "action"))
    rewards = () if reward is None else _columns(reward, f"{where}: reward", resample)
    if len(rewards) > 1:
        raise RciError(f"{where}: the reward is one number, got {len(rewards)} fields.")
    runs = table.get("episode")
    runs = _conditions({"field": runs} if isinstance(runs, str) else runs, f"{where}: episode", False)
    if len(runs) > 1:
        raise RciError(f"{where}: one field says which episode it is, got {len(runs)}.")
    mapping = BagMapping(
        obs=obs,
        action=action,
        rate=_at_least(table.get("rate", 0.0), f"{where}: rate (steps per second)", 0.0),
        reward=rewards[0] if rewards else None,
        clock=_choice(table, "clock", CLOCKS, where),
        max_gap=_at_least(table.get("max_gap", MAX_GAP), f"{where}: max_gap (seconds, 0 for none)", 0.0),
        stop=_conditions(table.get("stop"), f"{where}: stop", True),
        takeover=_conditions(table.get("takeover"), f"{where}: takeover", True),
        episode=runs[0] if runs else None,
        definitions=_folder(table.get("definitions", ""), where),
    )
    mapping.signals()  # whose names must differ
    return mapping


def _table(source: BagMappingSource) -> tuple[dict[str, Any], str]:
    """The keys of a mapping, and how it is called in messages."""
    if source is None:
        raise RciError(
            "a bag needs a mapping that names its topics: --mapping FILE, or one that comes with the package: "
            f"{', '.join(shipped())}."
        )
    if isinstance(source, Mapping):
        return dict(source), "the mapping"
    if not isinstance(source, str | Path):
        raise RciError(f"a mapping is a dict, a TOML file or a name, got {type(source).__name__}.")
    name = str(source)
    path: Any = files("rci.formats.bags") / "ready" / f"{name}.toml" if name in shipped() else Path(source)
    try:
        return parse_toml(path.read_text(encoding="utf-8")), f"the mapping {name}"
    except FileNotFoundError:
        raise RciError(
            f"there is no mapping {name}: neither a file nor one that comes with the package ({', '.join(shipped())})."
        ) from None
    except OSError as error:
        raise RciError(f"cannot read {name}: {error.strerror or error}.") from None
    except ValueError as error:
        raise RciError(f"{name} is not TOML: {error}.") from None


def _columns(given: Any, where: str, resample: str) -> tuple[Column, ...]:
    columns = []
    for entry in given if isinstance(given, list | tuple) else [given]:
        table = {"field": entry} if isinstance(entry, str) else entry
        if not isinstance(table, Mapping):
            raise RciError(f'{where} must be fields such as "/odom.twist.twist.linear.x", got {entry!r}.')
        for key in table:
            if key not in COLUMN_KEYS:
                raise unknown_name(f"key in {where}", key, COLUMN_KEYS)
        nonfinite = table.get("nonfinite")
        if nonfinite is not None:
            nonfinite = _number(nonfinite, f"{where}: nonfinite")
        topic, paths = _paths(table.get("field"), where)
        for key in ("name", "unit"):
            if not isinstance(table.get(key, ""), str):
                raise RciError(f"{where}: {key} must be a text, got {table[key]!r}.")
        kind = _choice(table, "resample", RESAMPLE, where) or resample
        for path, last in paths:
            name = (
                table["name"] + (last if len(paths) > 1 else "")
                if table.get("name")
                else topic + _shown(path)
            )
            columns.append(Column(topic, path, name, table.get("unit", ""), kind, nonfinite))
            if len(columns) > MOST_COLUMNS:
                raise RciError(f"{where} has more than {MOST_COLUMNS} numbers.")
    return tuple(columns)


def _conditions(given: Any, where: str, valued: bool) -> tuple[Condition, ...]:
    if given is None:
        return ()
    conditions = []
    for table in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(table, Mapping):
            raise RciError(
                f'{where} must be a table such as {{field = "/estop.data", is = true}}, got {table!r}.'
            )
        for key in table:
            if key not in CONDITION_KEYS:
                raise unknown_name(f"key in {where}", key, CONDITION_KEYS)
        if ("field" in table) == ("topic" in table):
            raise RciError(f'{where} must name one field, such as field = "/estop.data".')
        topic, paths = _paths(table.get("field", table.get("topic")), where)
        if len(paths) > 1:
            raise RciError(f"{where} must name one field, got {len(paths)}.")
        if valued and "is" not in table:
            raise RciError(f"{where} must say at which values it holds, such as is = true or is = [4, 5].")
        values = table.get("is", [])
        values = tuple(values) if isinstance(values, list | tuple) else (values,)
        if not all(isinstance(value, bool | int | float | str) for value in values):
            raise RciError(f"{where}: is must be true, a number, a text, or a list of such, got {values!r}.")
        if not isinstance(table.get("optional", False), bool):
            raise RciError(f"{where}: optional must be true or false, got {table['optional']!r}.")
        conditions.append(Condition(topic, paths[0][0], values, table.get("optional", False)))
    return tuple(conditions)


def _paths(text: Any, where: str) -> tuple[str, list[tuple[tuple[Step, ...], str]]]:
    """A topic, and the paths of fields in it, each with its last place in a list."""
    match = FIELD.fullmatch(text) if isinstance(text, str) and len(text) < 1000 else None
    if match is None:
        raise RciError(
            f'{where}: {text!r} is not a field; write the topic, a dot and the field: "/odom.twist.twist.linear.x", '
            '"/scan.ranges[0]" or "/scan.ranges[0:360:45]".'
        )
    paths: list[tuple[tuple[Step, ...], str]] = [((), "")]
    for name, first, end, step in PART.findall(match[2]):
        if name:
            paths = [((*path, name), last) for path, last in paths]
            continue
        indices = range(int(first), int(end) if end else int(first) + 1, int(step or 1) or 1)
        if not indices or len(indices) * len(paths) > MOST_COLUMNS:
            raise RciError(
                f"{where}: {text!r} has {len(indices)} elements; 1 to {MOST_COLUMNS} are possible."
            )
        paths = [((*path, place), f"{last}[{place}]") for path, last in paths for place in indices]
    return match[1], paths


def _shown(path: tuple[Step, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _choice(table: Mapping[str, Any], key: str, choices: tuple[str, ...], where: str) -> str:
    value = table.get(key, "")
    if value and value not in choices:
        raise unknown_name(f"{key} in {where}", str(value), choices)
    return str(value)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise RciError(f"{where} must be a finite number, got {value!r}.")
    return float(value)


def _at_least(value: Any, where: str, least: float) -> float:
    number = _number(value, where)
    if not least <= number <= 1e6:
        raise RciError(f"{where} must be a number from {least:g} to 1000000, got {value!r}.")
    return number


def _folder(value: Any, where: str) -> str:
    if not isinstance(value, str) or (value and not Path(value).is_dir()):
        raise RciError(
            f"{where}: definitions must be a folder with files PACKAGE/msg/NAME.msg, got {value!r}."
        )
    return value

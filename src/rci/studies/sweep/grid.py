"""The file of a sweep: settings that all points share, and lists of values whose combinations are the points."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.errors import RciError, unknown_name
from rci.data.toml import parse_toml
from rci.pipeline.config import RunConfig, Table, config_of, merge, method_settings

KEYS = ("task", "preset", "settings", "grid", "exclude")
NAMED_APART = ("task", "preset")  # which preset of which task; all else is a setting
MOST_POINTS = 10_000  # more is a mistake in the file, or a study that wants to be cut into parts
DEEPEST = 10  # tables in tables


@dataclass(frozen=True)
class Grid:
    """A sweep as the user wrote it."""

    task: str  # empty if it is one of the axes
    preset: str
    settings: Table
    axes: dict[str, tuple[Any, ...]]  # dotted name of a setting: its values, in the order of the file
    exclude: tuple[dict[str, Any], ...] = ()  # combinations of values that are left out


class Point(NamedTuple):
    """One combination of values, and the settings that it stands for."""

    values: dict[str, Any]
    config: RunConfig

    @property
    def name(self) -> str:
        return values_text(self.values)


def values_text(values: Mapping[str, Any]) -> str:
    """Values in the words of the user: learn.method=cdt, seed=1."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in values.items())


def value_text(value: Any) -> str:
    """One value in a line of text."""
    return value if isinstance(value, str) else json.dumps(plain(value))


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers that are not finite become texts, as budgets may be written anyway."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def read_grid(source: str | Path | Mapping[str, Any]) -> Grid:
    """The grid of a TOML file, or of such a table."""
    if isinstance(source, Mapping):
        return parse_grid(source, "the grid")
    try:
        table = parse_toml(Path(source).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RciError(f"there is no grid file {source}.") from None
    except (ValueError, OSError) as error:
        raise RciError(f"the grid file {source} cannot be read: {error}.") from None
    return parse_grid(table, str(source))


def parse_grid(table: Mapping[str, Any], where: str) -> Grid:
    """Check what can be checked without looking at single points. where: the file, for messages."""
    for key in table:
        if key not in KEYS:
            raise unknown_name(f"key of {where}", key, KEYS)
    _check_depth(table, where)
    settings, grid = (_table_of(table, name, where) for name in ("settings", "grid"))
    axes = _axes(grid, where)
    chosen = {name: table[name] for name in NAMED_APART if name in table}
    for name, value in chosen.items():
        if name in axes:
            raise RciError(f"{where} gives {name} both as one value and in [grid]; give it once.")
        _check_text(name, value, where)
    if "task" not in chosen and "task" not in axes:
        raise RciError(f'{where} names no task; write task = "point", for instance, at its top.')
    for name in axes:
        if _is_set(settings, name.split(".")):
            raise RciError(f"{where} gives {name} both in [settings] and in [grid]; give it once.")
    points = math.prod(len(values) for values in axes.values())
    if points > MOST_POINTS:
        raise RciError(f"{where} has {points} combinations; a sweep may have {MOST_POINTS} at most.")
    exclude = _excluded(table.get("exclude", []), axes, where)
    return Grid(chosen.get("task", ""), chosen.get("preset", "quick"), settings, axes, exclude)


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """The values of every point: all combinations in the order of the file, the last axis the fastest, but for those
    that are left out.
    """
    every = (dict(zip(grid.axes, values)) for values in itertools.product(*grid.axes.values()))
    return [values for values in every if not any(_matches(values, rule) for rule in grid.exclude)]


def points_of(grid: Grid) -> list[Point]:
    """Every point with its settings, checked, so that no work is done before a mistake in one of them is found."""
    from rci.pipeline.plan import check_config
    from rci.tasks import get

    every = combinations(grid)
    if not every:
        raise RciError("nothing is left of the grid: every combination is excluded.")
    points = []
    for number, values in enumerate(every, 1):
        task, preset = values.get("task", grid.task), values.get("preset", grid.preset)
        settings = _nested({name: value for name, value in values.items() if name not in NAMED_APART})
        try:
            get(task)
            config = config_of(task, preset, [grid.settings, settings])
            check_config(config)
        except RciError as error:
            raise RciError(f"point {number} of {len(every)} ({values_text(values)}): {error}") from None
        points.append(Point(values, config))
    return points


def identity(value: Any) -> Hashable:
    """Equal for values that mean the same: 1 and 1.0 do, 1 and true do not."""
    if isinstance(value, Mapping):
        return "table", frozenset((key, identity(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "list", tuple(identity(item) for item in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", value
    return type(value).__name__, str(value)


def _axes(grid: Mapping[str, Any], where: str) -> dict[str, tuple[Any, ...]]:
    axes = dict[str, tuple[Any, ...]]()
    for name, values in _flat(grid, lambda name, value: not isinstance(value, Mapping) or not value):
        if name in axes:
            raise RciError(f"{where} names {name} twice in [grid].")
        _check_name(name)
        if not isinstance(values, list | tuple):
            raise RciError(f"{name} in [grid] of {where} must be a list of values, not {values!r}.")
        if not values:
            raise RciError(f"{name} in [grid] of {where} is an empty list: there is nothing to try.")
        seen = set[Hashable]()
        for value in values:
            if identity(value) in seen:
                raise RciError(f"{name} in [grid] of {where} has the value {value_text(value)} twice.")
            seen.add(identity(value))
            if name in NAMED_APART:
                _check_text(name, value, where)
        axes[name] = tuple(values)
    for one, other in itertools.permutations(axes, 2):
        if other.startswith(f"{one}."):
            raise RciError(f"{where} has both {one} and {other} in [grid], which is a part of it.")
    if not axes:
        raise RciError(f'{where} has no [grid]; write for instance [grid] and below it "seed" = [0, 1, 2].')
    return axes


def _check_name(name: str) -> None:
    """Refuse a key of the grid that no run has as a setting."""
    section, _, rest = name.partition(".")
    fields = typing.get_type_hints(RunConfig)
    if section not in (*fields, "preset"):
        raise unknown_name("setting in [grid]", section, [*fields, "preset"])
    if not rest and not name.endswith("."):
        return
    settings = _section_settings(section)
    if not settings:
        raise RciError(f"{section} has no settings of its own, so there is no {name!r}.")
    if rest not in settings:
        raise unknown_name(f"setting of {section}", rest, settings)


def _section_settings(section: str) -> set[str]:
    """The names of all settings that a section may have, whatever the method; none if it is a single value."""
    if section in ("learn", "redistribute"):
        return {"method"}.union(*method_settings(section).values())
    if section in ("behaviour", "ppo"):
        from rci.collection import ppo
        from rci.learning import behaviour

        return set(typing.get_type_hints(ppo.Config if section == "ppo" else behaviour.Config))
    hint = typing.get_type_hints(RunConfig).get(section)
    return (
        set(typing.get_type_hints(hint))
        if isinstance(hint, type) and dataclasses.is_dataclass(hint)
        else set()
    )


def _excluded(given: Any, axes: Mapping[str, Sequence[Any]], where: str) -> tuple[dict[str, Any], ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(rule, Mapping) for rule in given):
        raise RciError(f"exclude in {where} must be tables of values, each below a line [[exclude]].")
    rules = []
    for number, table in enumerate(given, 1):
        rule = dict(_flat(table, lambda name, value: name in axes or not isinstance(value, Mapping)))
        if not rule:
            raise RciError(f"[[exclude]] number {number} of {where} is empty: it would leave out everything.")
        for name, value in rule.items():
            if name not in axes:
                raise unknown_name(f"key of the grid in [[exclude]] number {number}", name, axes)
            if identity(value) not in map(identity, axes[name]):
                listed = ", ".join(map(value_text, axes[name]))
                raise RciError(
                    f"[[exclude]] number {number} of {where} names {name}={value_text(value)}, which is not in the "
                    f"grid; it has {listed}."
                )
        rules.append(rule)
    return tuple(rules)


def _matches(values: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    return all(identity(values[name]) == identity(value) for name, value in rule.items())


def _flat(
    table: Mapping[str, Any], ends: Callable[[str, Any], bool], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Dotted names and their values: `learn.method = [...]` and `"learn.method" = [...]` are the same."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if ends(name, value):
            yield name, value
        else:
            yield from _flat(value, ends, f"{name}.")


def _nested(values: Mapping[str, Any]) -> Table:
    table: Table = {}
    for name, value in values.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        table = merge(table, value)
    return table


def _is_set(settings: Any, path: Sequence[str]) -> bool:
    """Whether the settings have a value, not a table, at this path."""
    for part in path:
        if not isinstance(settings, Mapping) or part not in settings:
            return False
        settings = settings[part]
    return not isinstance(settings, Mapping)


def _table_of(table: Mapping[str, Any], name: str, where: str) -> Table:
    inner = table.get(name, {})
    if not isinstance(inner, Mapping):
        raise RciError(f"{name} in {where} must be a table, below a line [{name}], not {inner!r}.")
    return dict(inner)


def _check_text(name: str, value: Any, where: str) -> None:
    if not isinstance(value, str):
        raise RciError(f"{name} in {where} must be a text, not {value!r}.")


def _check_depth(table: Mapping[str, Any], where: str) -> None:
    """Settings are a few tables deep; what is deeper cannot be a grid, and must not end in an endless descent."""
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        inner = [item for node in level for item in (node.values() if isinstance(node, Mapping) else node)]
        level = [item for item in inner if isinstance(item, Mapping | list | tuple)]
    if level:
        raise RciError(f"{where} is nested too deeply: settings are at most {DEEPEST} tables deep.")

"""Frozen dataclasses and named tuples from plain mappings: every key known, every value of the declared type."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from rci.data.errors import RciError, unknown_name

T = TypeVar("T")


def build(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Build `cls` from `values`; an unknown key or a wrong type is an error that says `where`."""
    hints = typing.get_type_hints(cls)
    if not isinstance(values, Mapping):
        raise RciError(
            f"{where} takes settings of its own, such as {where}.{next(iter(hints))}=..., not {values!r}."
        )
    arguments = {}
    for key, value in values.items():
        if key not in hints:
            raise unknown_name(f"setting in {where}", key, hints)
        arguments[key] = _convert(hints[key], value, f"{where}.{key}")
    return cls(**arguments)


def build_parts(classes: Sequence[type], values: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    """Several records from one flat mapping: each takes the keys it knows, and every key must be known."""
    fields = [set(typing.get_type_hints(cls)) for cls in classes]
    for key in values:
        if not any(key in names for names in fields):
            raise unknown_name(f"setting of {where}", key, set().union(*fields))
    return tuple(
        build(cls, {key: value for key, value in values.items() if key in names}, where)
        for cls, names in zip(classes, fields)
    )


def require_positive(settings: Any, *names: str) -> None:
    """Refuse settings that must be at least 1 and are not."""
    for name in names:
        if getattr(settings, name) < 1:
            raise RciError(f"{name} must be at least 1, got {getattr(settings, name)}.")


def _convert(hint: Any, value: Any, where: str) -> Any:
    """`value` as `hint` asks for, without silent loss: 3 may become 3.0, but 3.5 never 3, nor 1 True."""
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise _mismatch(where, "a table of settings", value)
        return build(typing.cast(type, hint), value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in arguments:
            try:
                return None if option is type(None) and value is None else _convert(option, value, where)
            except RciError:
                continue
        raise _mismatch(where, " or ".join(_name(option) for option in arguments), value)
    if origin is typing.Literal:
        if value not in arguments:
            raise RciError(f"{where} must be one of {', '.join(map(str, arguments))}, not {value!r}.")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _mismatch(where, "a list", value)
        return tuple(_convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _mismatch(where, "a table", value)
        return dict(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool)):
        return value
    raise _mismatch(where, _name(hint), value)


def _mismatch(where: str, expected: str, value: Any) -> RciError:
    return RciError(f"{where} must be {expected}, not {value!r} ({type(value).__name__}).")


def _name(hint: Any) -> str:
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(
        hint, str(hint)
    )

"""Which feature of a LeRobot folder is what: said by a mapping, or by the names that its users give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rci.data.artefacts.signals import Signal, Signals
from rci.data.errors import RciError, unknown_name
from rci.formats.lerobot.info import Info
from rci.formats.tables.mapping import read_table

STATE, ACTION = "observation.state", "action"
SINGLE = {  # the first of these that is there
    "reward": ("next.reward", "reward"),
    "stop": ("stopped", "stop", "e_stop", "estop", "emergency_stop"),
    "terminated": ("is_terminal", "next.terminated", "next.done"),
    "truncated": ("next.truncated",),
    "takeover": ("intervention", "is_intervention", "complementary_info.is_intervention"),
    "success": ("success", "next.success"),
    "cost": ("cost",),
}
AMOUNTS = ("reward", "cost")  # the others are flags


@dataclass(frozen=True)
class Roles:
    """Names of features; an empty one says that there is none."""

    obs: tuple[str, ...]
    action: tuple[str, ...]
    reward: str = ""
    stop: str = ""
    terminated: str = ""
    truncated: str = ""
    takeover: str = ""
    success: str = ""
    cost: str = ""

    @property
    def used(self) -> list[str]:
        """All features that are read."""
        return [*self.obs, *self.action, *(name for role in SINGLE if (name := getattr(self, role)))]


def roles_of(info: Info, mapping: Mapping[str, Any] | str | Path | None) -> tuple[Roles, list[str]]:
    """What the mapping says, completed by names that are usual, and notes on what is left out."""
    given, where = read_table(mapping)
    for key, value in given.items():
        if key not in {field.name for field in fields(Roles)}:
            raise unknown_name(f"key in {where}", key, [field.name for field in fields(Roles)])
        given[key] = _names(value, key, where)
    chosen: dict[str, Any] = {
        "obs": given.get("obs") or _usual(info, STATE, "observation."),
        "action": given.get("action") or _usual(info, ACTION, "action."),
    }
    for role, usual in SINGLE.items():
        flags = [name for name in usual if name in info.features]
        if role not in AMOUNTS:
            flags = [name for name in flags if info.features[name].is_flag]
        chosen[role] = given.get(role, next(iter(flags), ""))
    roles = Roles(**chosen)
    _check(info, roles, where)
    notes = []
    others = [n for n in _numeric(info, "observation.") if n not in roles.obs] if "obs" not in given else []
    if others:
        notes.append(
            f"observations are {', '.join(roles.obs)}; not read: {', '.join(others)} (name them as obs in a mapping)"
        )
    if not roles.reward and "reward" not in given:
        notes.append("there is no next.reward or reward: rewards are 0")
    return roles, notes


def signals_of(info: Info, roles: Roles) -> Signals:
    """Names, units and the rate, as the folder has them."""
    return Signals(_named(info, roles.obs), _named(info, roles.action), info.fps)


def _named(info: Info, columns: tuple[str, ...]) -> tuple[Signal, ...]:
    """A name for each number; nothing if no feature has names."""
    features = [info.features[name] for name in columns]
    if not any(feature.names for feature in features):
        return ()
    found = []
    for name, feature in zip(columns, features):
        size = feature.shape[0]
        short = name.rsplit(".", 1)[-1]
        names = feature.names or tuple(short if size == 1 else f"{short}_{i}" for i in range(size))
        units = feature.units or ("",) * size
        found += [(name, one, unit) for one, unit in zip(names, units)]
    short_names = [one for _, one, _ in found]
    if len(set(short_names)) == len(short_names):
        return tuple(Signal(one, unit) for _, one, unit in found)
    full = [f"{name}.{one}" for name, one, _ in found]
    if len(set(full)) < len(full):
        raise RciError(f"{info.root}: two numbers of {', '.join(columns)} have one name; names must differ.")
    return tuple(Signal(one, unit) for one, (_, _, unit) in zip(full, found))


def _usual(info: Info, name: str, prefix: str) -> tuple[str, ...]:
    if name in info.features and info.features[name].numeric:
        return (name,)
    return tuple(_numeric(info, prefix))


def _numeric(info: Info, prefix: str) -> list[str]:
    return [name for name, feature in info.features.items() if name.startswith(prefix) and feature.numeric]


def _check(info: Info, roles: Roles, where: str) -> None:
    for role, columns in (("obs", roles.obs), ("action", roles.action)):
        if not columns:
            raise RciError(
                f"{info.root} has no numbers to take as {role}; its features are {', '.join(info.features)}. Name some "
                f"in a mapping: {role} = [...]."
            )
    for name in roles.used:
        if name not in info.features:
            raise unknown_name(f"feature in {where}", name, info.features)
        if roles.used.count(name) > 1:
            raise RciError(f"{where}: the feature {name!r} is used for two things; it is one thing only.")
        feature = info.features[name]
        if not feature.numeric or feature.shape[0] < 1:
            raise RciError(
                f"{info.root}: the feature {name!r} is {feature.dtype} of shape {list(feature.shape)}; it must "
                "be a number or a row of numbers."
            )
    for role in SINGLE:
        name = getattr(roles, role)
        if name and info.features[name].shape != (1,):
            raise RciError(
                f"{info.root}: {name!r} is to be the {role}: one number a frame, not {info.features[name].shape}."
            )


def _names(value: Any, key: str, where: str) -> Any:
    if key in ("obs", "action"):
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
            raise RciError(f"{where}: {key} must be a feature or a list of features, got {value!r}.")
        return tuple(names)
    if not isinstance(value, str):
        raise RciError(f"{where}: {key} must be the name of a feature, got {value!r}.")
    return value

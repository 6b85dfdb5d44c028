"""What a mapping says: which column of a log is what, and how gaps and times are treated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rci.data.errors import RciError, unknown_name
from rci.data.toml import parse_toml
from rci.formats.tables.formula import Formula

VECTORS = {  # columns obs, obs_0, obs0, obs.x, obs[0] and the like
    "obs": ("obs", "observation", "observations", "state"),
    "next_obs": ("next_obs", "next_observation", "next_observations", "next_state"),
    "action": ("action", "actions", "act"),
}
SINGLE = {  # the first of these that is there
    "reward": ("reward", "rewards", "rew", "r"),
    "episode": ("episode", "episode_id", "run", "run_id", "trajectory", "trajectory_id", "traj", "traj_id"),
    "step": ("step", "t", "timestep", "time", "timestamp"),
    "stop": ("stop", "stopped", "estop", "e_stop", "emergency_stop"),
    "terminated": ("terminated", "terminal", "terminals", "termination", "done"),
    "truncated": ("truncated", "timeout", "timeouts", "truncation"),
    "cost": ("cost", "costs"),
    "severity": ("severity", "cost_sparse"),
}
LISTS = ("keys", "linear")  # columns as well, which may be none
CHOICES = {"missing": ("error", "forward", "drop-run"), "time_unit": ("s", "ms", "us", "ns")}
KEY_PREFIX = "key."  # of columns that RCI wrote: the rest is the name of a key


@dataclass(frozen=True)
class ColumnNames:
    """The columns of a log. A vector is one column of lists, or several columns in this order."""

    obs: tuple[str, ...]
    action: tuple[str, ...]
    reward: str = ""
    next_obs: tuple[str, ...] = ()
    episode: str = ""  # without: one episode per file, or until a flag or a restart of the steps
    step: str = ""
    stop: str = ""
    terminated: str = ""
    truncated: str = ""
    cost: str = ""
    severity: str = ""  # of a stop, in its row; 1 where it is empty
    choices: int = 0  # of how many actions a whole number chooses; it is made one-hot
    episodes_per_file: bool = False  # the same name in two files means two episodes
    keys: tuple[str, ...] = ()  # which are the same in all rows of an episode
    formula: Formula | None = None  # of the reward, in place of a column
    missing: str = "error"  # what becomes of gaps
    time: str = ""
    time_unit: str = ""  # of times that are numbers
    rate: float | None = None  # steps per second: with a column of times, rows are resampled
    max_gap: float | None = None  # seconds without a row after which a run is another one
    linear: tuple[str, ...] = ()  # columns of obs between whose rows lines are drawn

    def used(self) -> list[str]:
        """All columns that are read as numbers, names of episodes, or times."""
        single = [getattr(self, role) for role in (*SINGLE, "time")]
        return [name for name in (*self.obs, *self.action, *self.next_obs, *single) if name]

    def read(self) -> list[str]:
        """All columns that are read, each of them once."""
        inputs = () if self.formula is None else self.formula.columns
        return list(dict.fromkeys([*self.used(), *self.keys, *inputs]))

    @property
    def whole_runs(self) -> bool:
        """Whether a run has to be in memory as a whole before it can be taken in."""
        looks_around = self.formula is not None and self.formula.looks_around
        return bool(self.missing != "error" or self.time or looks_around)


def read_table(mapping: Mapping[str, Any] | str | Path | None) -> tuple[dict[str, Any], str]:
    """A mapping from a dict or a TOML file, and how messages call it; its keys are still to be checked."""
    where = "the mapping"
    if mapping is None:
        return {}, where
    if isinstance(mapping, str | Path):
        where = str(mapping)
        try:
            mapping = parse_toml(Path(mapping).read_text(encoding="utf-8"))
        except OSError as error:
            raise RciError(f"cannot read {where}: {error.strerror or error}.") from None
        except ValueError as error:
            raise RciError(f"{where} is not TOML: {error}.") from None
    if not isinstance(mapping, Mapping):
        raise RciError(f"a mapping is a dict or a TOML file, got {type(mapping).__name__}.")
    return dict(mapping), where


def read_mapping(mapping: Mapping[str, Any] | str | Path | None) -> dict[str, Any]:
    """A mapping from a dict or a TOML file; every key known and of the right kind."""
    table, where = read_table(mapping)
    keys = {field.name for field in fields(ColumnNames)} - {"formula"} | {"units"}
    checked = {}
    for key, value in table.items():
        if key not in keys:
            raise unknown_name(f"key in {where}", key, keys)
        checked[key] = _checked(key, value, where)
    return checked


def _checked(key: str, value: Any, where: str) -> Any:
    if key == "choices":
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 4096:
            raise RciError(f"{where}: choices must be a whole number up to 4096, got {value!r}.")
        return value
    if key == "episodes_per_file":
        if not isinstance(value, bool):
            raise RciError(f"{where}: episodes_per_file must be true or false, got {value!r}.")
        return value
    if key in CHOICES:
        if value not in CHOICES[key]:
            raise RciError(f"{where}: {key} must be one of {', '.join(CHOICES[key])}, got {value!r}.")
        return value
    if key in ("rate", "max_gap"):
        what = "steps per second" if key == "rate" else "seconds"
        if not _is_number(value) or not 0 < value < math.inf:
            raise RciError(f"{where}: {key} must be a positive number of {what}, got {value!r}.")
        return float(value)
    if key == "units":
        return _units(value, where)
    if key in VECTORS or key in LISTS:
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise RciError(f"{where}: {key} must be a column or a list of columns, got {value!r}.")
        return tuple(name for name in names if name)
    if key == "reward" and _is_number(value):
        return value
    if not isinstance(value, str):
        raise RciError(f"{where}: {key} must be the name of a column, got {value!r}.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _units(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(text, str) for pair in value.items() for text in pair
    ):
        raise RciError(f'{where}: units must be a table such as {{lidar_3 = "m"}}, got {value!r}.')
    return dict(value)

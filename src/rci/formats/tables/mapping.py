"""Which column of a log is what: told by a mapping, guessed where it is obvious."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rci.data.errors import RciError, unknown_name
from rci.data.toml import parse_toml

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


@dataclass(frozen=True)
class ColumnNames:
    """The columns of a log. A vector is one column of lists, or several columns in this order."""

    obs: tuple[str, ...]
    action: tuple[str, ...]
    reward: str
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

    def used(self) -> list[str]:
        """All columns that are read."""
        single = [getattr(self, role) for role in SINGLE]
        return [name for name in (*self.obs, *self.action, *self.next_obs, *single) if name]


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
    known = {field.name for field in fields(ColumnNames)}
    checked = {}
    for key, value in table.items():
        if key not in known:
            raise unknown_name(f"key in {where}", key, known)
        checked[key] = _checked(key, value, where)
    return checked


def resolve(
    mapping: Mapping[str, Any], columns: Sequence[str], path: Path | str
) -> tuple[ColumnNames, list[str]]:
    """What the mapping says, completed by guesses, which are told as notes. An empty name forbids to guess."""
    told = dict(mapping)
    guessed = []
    for role in (*VECTORS, *SINGLE):
        if role not in told:
            guess = _vector(VECTORS[role], columns) if role in VECTORS else _single(SINGLE[role], columns)
            if guess:
                told[role] = guess
                guessed.append(f"{role} = {guess if isinstance(guess, str) else ' '.join(guess)}")
    for role in ("obs", "action", "reward"):
        if not told.get(role):
            none = " (a column of zeros, if nothing was earned)" if role == "reward" else ""
            raise RciError(
                f"{path}: no column looks like {role}; say which it is in a mapping{none}. The columns are: "
                f"{', '.join(columns)}."
            )
    if mapping.get("severity") and not told.get("stop"):
        raise RciError(
            f"{path}: a severity is that of a stop, but no column says where stops are; name it, as in stop = 'estop'."
        )
    names = ColumnNames(**told)
    for name in names.used():
        if name not in columns:
            raise unknown_name(f"column in {path}", name, columns)
    for name in names.used():
        if names.used().count(name) > 1:
            raise RciError(f"{path}: column {name!r} is used for two things; a column is one thing only.")
    notes = [f"columns that were guessed: {', '.join(guessed)}"] if guessed else []
    if "terminated" not in mapping and names.terminated.lower() == "done" and not names.truncated:
        notes.append(f"{names.terminated!r} does not say what ended an episode: taken as terminated")
    return names, notes


def _checked(key: str, value: Any, where: str) -> Any:
    if key == "choices":
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 4096:
            raise RciError(f"{where}: choices must be a whole number up to 4096, got {value!r}.")
        return value
    if key == "episodes_per_file":
        if not isinstance(value, bool):
            raise RciError(f"{where}: episodes_per_file must be true or false, got {value!r}.")
        return value
    if key in VECTORS:
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise RciError(f"{where}: {key} must be a column or a list of columns, got {value!r}.")
        return tuple(name for name in names if name)
    if not isinstance(value, str):
        raise RciError(f"{where}: {key} must be the name of a column, got {value!r}.")
    return value


def _vector(stems: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Columns that are a stem, or a stem with something behind it; by number if all have one, else as in the file."""
    for stem in stems:
        found = [name for name in columns if re.fullmatch(rf"{stem}(\d+|[._\[ -].*)?", name.lower())]
        if found:
            numbered = [re.fullmatch(rf"{stem}\D?(\d+)\D?", name.lower()) for name in found]
            if all(numbered):
                found.sort(key=lambda name: int(re.sub(r"\D", "", name[len(stem) :])))
            return tuple(found)
    return ()


def _single(known: Sequence[str], columns: Sequence[str]) -> str:
    lower = {name.lower(): name for name in reversed(columns)}
    return next((lower[name] for name in known if name in lower), "")

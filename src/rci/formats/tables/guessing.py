"""The columns of one log: as a mapping says, with wildcards spelled out, and guessed where it is obvious."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fnmatch import translate
from pathlib import Path
from typing import Any

from rci.data.artefacts.signals import Signal, Signals
from rci.data.errors import RciError, unknown_name
from rci.formats.tables.formula import parse_formula
from rci.formats.tables.mapping import KEY_PREFIX, LISTS, SINGLE, VECTORS, ColumnNames

UNIT = re.compile(r"(.*\S)\s+\[([^\[\]]*[^\W\d_%°][^\[\]]*|%|°)\]")  # as in "speed [m/s]"


def resolve(
    mapping: Mapping[str, Any], columns: Sequence[str], path: Path | str
) -> tuple[ColumnNames, list[str]]:
    """What the mapping says, completed by guesses, which are listed in notes. An empty name forbids to guess."""
    roles = {key: value for key, value in mapping.items() if key != "units"}
    for role in (*VECTORS, *LISTS):
        if role in roles:
            roles[role] = _spelled_out(roles[role], columns, f"{path}: {role}")
    _take_formula(roles, columns, path)
    guessed = _guess(roles, columns)
    for role in ("obs", "action"):
        if not roles.get(role):
            raise RciError(
                f"{path}: no column looks like {role}; say which it is in a mapping. The columns are: "
                f"{', '.join(columns)}."
            )
    if not roles.get("reward") and "formula" not in roles:
        raise RciError(
            f"{path}: no column looks like a reward; say reward = 0 in the mapping if nothing was earned, or an "
            f"expression over columns such as reward = 'speed - abs(turn)'. The columns are: {', '.join(columns)}."
        )
    if mapping.get("severity") and not roles.get("stop"):
        raise RciError(
            f"{path}: a severity is that of a stop, but no column says where stops are; name it, as in stop = 'estop'."
        )
    names = ColumnNames(**roles)
    _check_columns(names, columns, path)
    notes = [f"columns that were guessed: {', '.join(guessed)}"] if guessed else []
    if "terminated" not in mapping and names.terminated.lower() == "done" and not names.truncated:
        notes.append(f"{names.terminated!r} does not say what ended an episode: taken as terminated")
    return names, notes


def signals_of(names: ColumnNames, units: Mapping[str, str], path: Path | str) -> Signals:
    """What the numbers are called, in which units: as the headings say, and as the mapping says."""
    present = [*names.obs, *names.action]
    unit_of: dict[str, str] = {}
    for pattern, unit in units.items():
        unit_of |= dict.fromkeys(_spelled_out((pattern,), present, f"{path}: units"), unit)
    for column in unit_of:
        if column not in present:
            raise unknown_name(f"column of obs or action in the units of {path}", column, present)
    return Signals(_signals(names.obs, unit_of, "obs"), _signals(names.action, unit_of, "action"), names.rate)


def key_names(names: ColumnNames) -> list[str]:
    """What the keys are called that columns hold. If RCI wrote the log, its episodes are only numbered."""
    episode = [names.episode] if names.episode and not _written_by_rci(names) else []
    return list(dict.fromkeys([*episode, *(name.removeprefix(KEY_PREFIX) for name in names.keys)]))


def key_columns(names: ColumnNames) -> list[str]:
    """The columns that hold the keys, in the same order."""
    episode = [names.episode] if names.episode and not _written_by_rci(names) else []
    return list(dict.fromkeys([*episode, *names.keys]))


def _written_by_rci(names: ColumnNames) -> bool:
    return any(name.startswith(KEY_PREFIX) for name in names.keys)


def _take_formula(roles: dict[str, Any], columns: Sequence[str], path: Path | str) -> None:
    """A reward that is not the name of a column is an expression over columns."""
    reward = roles.get("reward", "")
    if reward != "" and reward not in columns:
        roles["formula"] = parse_formula(str(reward), columns, f"{path}: the reward {reward!r}")
        roles["reward"] = ""


def _guess(roles: dict[str, Any], columns: Sequence[str]) -> list[str]:
    """Fill in roles that nothing is said of, from columns that are nothing else; what was guessed, for a note."""
    guessed = []
    for role in (*VECTORS, *SINGLE):
        if role in roles or (role == "step" and roles.get("time")):
            continue
        guess = _vector(VECTORS[role], columns) if role in VECTORS else _single(SINGLE[role], columns)
        if guess:
            roles[role] = guess
            guessed.append(f"{role} = {guess if isinstance(guess, str) else ' '.join(guess)}")
    if "keys" not in roles:
        roles["keys"] = tuple(name for name in columns if name.startswith(KEY_PREFIX))
    return guessed


def _check_columns(names: ColumnNames, columns: Sequence[str], path: Path | str) -> None:
    for name in names.read():
        if name not in columns:
            raise unknown_name(f"column in {path}", name, columns)
    used = names.used()
    for name in used:
        if used.count(name) > 1:
            roles = [field.name for field in fields(names) if _holds(getattr(names, field.name), name)]
            twice = f"twice as {roles[0]}" if len(set(roles)) == 1 else f"as {' and as '.join(roles)}"
            raise RciError(
                f"{path}: column {name!r} is named {twice}, directly or by a wildcard; a column is one thing only, so "
                "take it from one of them."
            )
    if len(key_names(names)) != len(key_columns(names)):
        raise RciError(f"{path}: two columns of keys are called the same: {', '.join(key_columns(names))}.")
    for name in names.linear:
        if name not in names.obs:
            raise unknown_name(f"column of obs under linear in {path}", name, names.obs)
    if names.linear and names.rate is None:
        raise RciError(f"{path}: linear says how rows are resampled; say the rate as well, as in rate = 10.")
    for key in ("max_gap", "time_unit"):
        if getattr(names, key) and not names.time:
            raise RciError(f"{path}: {key} is about times; name their column as well, as in time = 'stamp'.")


def _holds(value: Any, name: str) -> bool:
    return name in value if isinstance(value, tuple) else value == name


def _spelled_out(patterns: Sequence[str], columns: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns that are meant, each wildcard as those that match it, in the order of the file."""
    names: list[str] = []
    for pattern in patterns:
        if pattern in columns or not set(pattern) & {"*", "?"}:
            matching = [pattern]
        else:  # brackets belong to units and stand for themselves
            wanted = re.compile(translate(pattern.replace("[", "[[]")))
            matching = [name for name in columns if wanted.fullmatch(name)]
        if not matching:
            raise RciError(f"{where}: no column matches {pattern!r}. The columns are: {', '.join(columns)}.")
        for name in matching:
            if name in names:
                raise RciError(
                    f"{where}: column {name!r} is named twice, the second time by {pattern!r}; name it once."
                )
        names += matching
    return tuple(names)


def _signals(columns: Sequence[str], units: Mapping[str, str], role: str) -> tuple[Signal, ...]:
    parsed = []
    for column in columns:
        heading = UNIT.fullmatch(column)
        name, unit = (heading[1], heading[2]) if heading else (column, "")
        for stem in VECTORS[role]:
            rest = name[len(stem) + 1 :]
            if name.lower().startswith(f"{stem}.") and rest and not rest.isdigit():
                name = rest
                break
        parsed.append(Signal(name, units.get(column, unit)))
    names = [signal.name for signal in parsed]
    if len(set(names)) < len(names):  # the same name in two units: headings do differ
        return tuple(Signal(column, units.get(column, "")) for column in columns)
    return tuple(parsed)


def _vector(stems: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Columns that are a stem, or a stem with something behind it; by number if all have one, else as in the file."""
    for stem in stems:
        matching = [name for name in columns if re.fullmatch(rf"{stem}(\d+|[._\[ -].*)?", name.lower())]
        if matching:
            numbered = [re.fullmatch(rf"{stem}\D?(\d+)\D?", name.lower()) for name in matching]
            if all(numbered):
                matching.sort(key=lambda name: int(re.sub(r"\D", "", name[len(stem) :])))
            return tuple(matching)
    return ()


def _single(names: Sequence[str], columns: Sequence[str]) -> str:
    lower = {name.lower(): name for name in reversed(columns)}
    return next((lower[name] for name in names if name in lower), "")

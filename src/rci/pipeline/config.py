"""Settings of a run: defaults < preset < file < flags. Every key is known, or it is an error."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, get_type_hints

from rci.data.errors import RciError, unknown_name
from rci.data.options import build
from rci.data.toml import parse_toml

Table = dict[str, Any]
PAPERS_LEARNER = ("learn.method=bcq-lagrangian", "behaviour.model=vae")  # as flags, under those of a user
SHARE = re.compile(r"(?<![\w.\"'=%-])\d+(?:\.\d+)?%(?![\w\"'%])")  # 5%, which TOML would want in quotes
MAX_SEED = 1_000_000  # a seed times the stride of comparisons must stay a 32-bit number


@dataclass(frozen=True)
class Collect:
    """What is recorded."""

    episodes: int = 1000
    recipe: str = "mixed"


@dataclass(frozen=True)
class Label:
    """Who presses STOP: the task's rule, seen through a kind of noise."""

    noise: str = "clean"


@dataclass(frozen=True)
class Compare:
    """Which costs are compared, at which budgets, over how many seeds."""

    methods: tuple[str, ...] = ("reward-only", "sparse", "uniform", "rci")
    budgets: tuple[float | str, ...] = (0.05, 0.2)
    seeds: int = 1


@dataclass(frozen=True)
class Evaluate:
    """How policies are tested."""

    episodes: int = 1000
    rollouts: int = 20  # episodes recorded for the trajectory figure


@dataclass(frozen=True)
class RunConfig:
    """Everything that a run depends on. `redistribute` and `learn` take the settings of their methods.

    `ppo` is how demonstrators are trained, if the recipe needs any.
    """

    task: str
    seed: int = 0
    collect: Collect = field(default_factory=Collect)
    ppo: dict[str, Any] = field(default_factory=dict)
    label: Label = field(default_factory=Label)
    behaviour: dict[str, Any] = field(default_factory=dict)
    redistribute: dict[str, Any] = field(default_factory=lambda: {"method": "rudder"})
    learn: dict[str, Any] = field(default_factory=lambda: {"method": "feasible"})
    compare: Compare = field(default_factory=Compare)
    evaluate: Evaluate = field(default_factory=Evaluate)

    def as_table(self) -> Table:
        """As plain JSON values."""
        return dataclasses.asdict(self)


def load_config(
    task: str, preset: str, file: Path | None = None, flags: Sequence[str] = (), seed: int | None = None
) -> RunConfig:
    """The settings of `rci run`. flags: "section.key=value", the value as TOML."""
    layers = [] if file is None else [_read_toml(file)]
    layers.append(parse_flags(flags))
    if seed is not None:
        layers.append({"seed": seed})
    return config_of(task, preset, layers)


def config_of(task: str, preset: str, layers: Sequence[Table]) -> RunConfig:
    """The settings of a preset with these tables laid on it, one after the other."""
    table = merge(RunConfig(task).as_table(), read_preset(task, preset))
    for layer in layers:
        table = lay(table, layer)
    if table["task"] != task:
        raise RciError(f"the settings are for the task {table['task']!r}, but {task!r} was asked for.")
    config = build(RunConfig, table, "settings")
    if not 0 <= config.seed <= MAX_SEED:
        raise RciError(f"the seed must be 0 to {MAX_SEED}, got {config.seed}.")
    if config.compare.seeds < 1:
        raise RciError(f"compare.seeds must be at least 1, got {config.compare.seeds}.")
    return _with_plain_budgets(config)


def _with_plain_budgets(config: RunConfig) -> RunConfig:
    """The same settings with 5% as 0.05, so that both are one run to everything that comes after."""
    from rci.data.risk.budgets import parse_budget

    budgets = tuple(parse_budget(b) if isinstance(b, str) and "%" in b else b for b in config.compare.budgets)
    return dataclasses.replace(config, compare=dataclasses.replace(config.compare, budgets=budgets))


def presets_of(task: str) -> list[str]:
    """The names of a task's presets; a variant of another task has that one's."""
    folder = _preset_folder(task)
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir()) if folder.is_dir() else []


def read_preset(task: str, preset: str) -> Table:
    """The settings shipped under a name."""
    if preset not in presets_of(task):
        raise unknown_name(f"preset of {task}", preset, presets_of(task))
    return parse_toml(_preset_folder(task).joinpath(f"{preset}.toml").read_text(encoding="utf-8"))


def _preset_folder(task: str) -> Traversable:
    from rci.tasks import TASKS

    family = TASKS[task].variant_of or task if task in TASKS else task
    return resources.files("rci.pipeline").joinpath("presets", family)


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> Table:
    """`over` laid on `under`, table by table. A new key is kept: whether it is known is checked when building."""
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(under.get(key), Mapping)
        merged[key] = merge(under[key], value) if both else value
    return merged


def lay(under: Table, over: Table) -> Table:
    """`over` merged on `under`. Where it names another learner or redistributor, of the settings below only those stay
    that this one has.

    So a preset sets the size and length of training of every method, and what only its own has is allowed.
    """
    for section in ("learn", "redistribute"):
        method = _method(over, section)
        if method not in (None, _method(under, section)):
            settings = method_settings(section).get(method) if isinstance(method, str) else None
            if settings is not None:  # else it is unknown, which is found later
                shared = {key: value for key, value in under[section].items() if key in settings}
                under = {**under, section: shared}
    return merge(under, over)


def method_settings(section: str) -> dict[str, Set[str]]:
    """The names of the settings of every learner (`learn`) or redistributor (`redistribute`), by its name."""
    if section == "learn":
        from rci.learning import LEARNERS, settings_of

        return {name: settings_of(name) for name in LEARNERS}
    from rci.redistribution import REDISTRIBUTORS

    return {
        name: {setting for part in (one.config, one.hyper, *one.shared) for setting in get_type_hints(part)}
        for name, one in REDISTRIBUTORS.items()
    }


def _method(table: Table, section: str) -> Any:
    """The method that a table names, if any; whether it is a name is checked later."""
    inner = table.get(section, {})
    if not isinstance(inner, Mapping):
        raise RciError(f"settings.{section} must be a table, not {inner!r} ({type(inner).__name__}).")
    return inner.get("method")


def parse_flags(flags: Sequence[str]) -> Table:
    """["learn.updates=3000"] -> {"learn": {"updates": 3000}}. What TOML cannot read is taken as text."""
    table: Table = {}
    for flag in flags:
        name, equals, text = flag.partition("=")
        if not equals or not all(part for part in name.split(".")):
            raise RciError(f"a setting is written key=value, such as learn.updates=3000, not {flag!r}.")
        try:
            quoted = SHARE.sub(r'"\g<0>"', text)
            value = parse_toml(f"value = {quoted}")["value"]
        except ValueError:
            value = text
        for part in reversed(name.split(".")):
            value = {part: value}
        table = merge(table, value)
    return table


def stage_flags(flags: Sequence[str]) -> Table:
    """Settings of a single stage, which have no prefix; `behaviour` is a table of its own."""
    table = parse_flags(flags)
    for key, value in table.items():
        if isinstance(value, Mapping) and key != "behaviour":
            inner = next(iter(value))
            raise RciError(
                f"a single stage takes its settings without a prefix: {inner}=..., not {key}.{inner}=..."
            )
    return table


def _read_toml(file: Path) -> Table:
    try:
        return parse_toml(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RciError(f"there is no settings file {file}.") from None
    except (ValueError, OSError) as error:
        raise RciError(f"the settings file {file} cannot be read: {error}.") from None

"""What the numbers of observations and actions are called, in which units, and how often they were recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError


class Signal(NamedTuple):
    """One number of an observation or an action."""

    name: str
    unit: str = ""

    @property
    def label(self) -> str:
        """As it is shown: lidar_3 [m]."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


@dataclass(frozen=True)
class Signals:
    """The signals of flat observations and actions, in their order; an empty one is not known."""

    obs: tuple[Signal, ...] = ()
    action: tuple[Signal, ...] = ()
    rate: float | None = None  # steps per second, where known

    def __post_init__(self) -> None:
        for what in ("obs", "action"):
            names = [signal.name for signal in getattr(self, what)]
            if not all(isinstance(text, str) for signal in getattr(self, what) for text in signal) or not all(
                names
            ):
                raise RciError(f"every signal of {what} needs a name.")
            for name in names:
                if names.count(name) > 1:
                    raise RciError(f"two signals of {what} are called {name!r}; names must differ.")
        if self.rate is not None and not (np.isfinite(self.rate) and self.rate > 0):
            raise RciError(f"a rate is a positive number of steps per second, got {self.rate}.")

    def check_sizes(self, obs_size: int, action_size: int) -> None:
        """Refuse names for more or fewer numbers than there are."""
        for what, size in (("obs", obs_size), ("action", action_size)):
            named = len(getattr(self, what))
            if named and named != size:
                raise RciError(f"{named} signals of {what} are named, but there are {size}.")

    def as_table(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "obs": [list(s) for s in self.obs],
            "action": [list(s) for s in self.action],
            "rate": self.rate,
        }

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Signals:
        """The inverse of `as_table`."""
        obs, action = (tuple(Signal(*pair) for pair in table[what]) for what in ("obs", "action"))
        return cls(obs, action, table["rate"])

    def labels(self, what: str, size: int) -> list[str]:
        """What to write beside each of `size` numbers of "obs" or "action"; "obs 7" for one without a name."""
        return [signal.label for signal in getattr(self, what)] or [f"{what} {i}" for i in range(size)]


def named_signals(signals: Signals | None) -> dict[str, Any]:
    """The names as a part of what describes something; nothing where there are none."""
    return {} if signals is None else {"signals": signals.as_table()}


def labels_in(info: Mapping[str, Any]) -> dict[str, list[str]]:
    """The signals that a policy or a monitor names, as they are shown, of "obs" and of "action"."""
    table = info.get("signals")
    if table is None:
        return {}
    signals = Signals.from_table(table)
    return {what: signals.labels(what, 0) for what in ("obs", "action") if getattr(signals, what)}

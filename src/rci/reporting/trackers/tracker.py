"""What a tracker of experiments offers, and the one that never lets a run fail because of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from rci.data.errors import unknown_name
from rci.data.extras import require_extra

TRACKERS = {
    "mlflow": "MlflowTracker",
    "wandb": "WandbTracker",
    "tensorboard": "TensorboardTracker",
}  # name of the tracker, of its file and of its extra: its class


class Tracker(Protocol):
    """One experiment after the other: begin, anything in any order, end."""

    def begin(self, name: str, config: Mapping[str, Any], group: str = "") -> None:
        """An experiment with its settings begins; experiments of one group belong together."""

    def curves(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Numbers after so many updates of the training `name`, or what came of it."""

    def figure(self, name: str, png: bytes) -> None:
        """A picture."""

    def artefact(self, name: str, address: str, content: str) -> None:
        """Where an artefact is, and the hash of its content; the artefact itself stays there."""

    def end(self, failed: bool = False) -> None:
        """The experiment is over."""


class Untracked:
    """The tracker of those who want none: it ignores everything."""

    def __getattr__(self, verb: str) -> Callable[..., None]:
        return lambda *values, **named: None


class Careful:
    """A tracker whose first failure is one warning, and nothing else: whatever it does, the run goes on without it.

    Its package is loaded when something is logged, so that a failure in that is one of the tracker's as well.
    """

    def __init__(self, name: str, folder: Path, warn: Callable[[str], None]) -> None:
        self.name, self.folder, self.warn = name, folder, warn
        self.opened: Any = None
        self.failed = False

    def __getattr__(self, verb: str) -> Callable[..., None]:
        def call(*values: Any, **named: Any) -> None:
            if self.failed:
                return
            try:
                getattr(self._open(), verb)(*values, **named)
            except Exception as error:  # whatever a package of others raises
                self.failed = True
                why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
                self.warn(
                    f"the tracker {self.name} failed ({why}); nothing more is logged to it, and the run goes on."
                )

        return call

    def _open(self) -> Any:
        if self.opened is None:
            module = import_module(f"rci.reporting.trackers.{self.name}_tracker")
            self.opened = getattr(module, TRACKERS[self.name])(self.folder)
        return self.opened


UNTRACKED = cast(Tracker, Untracked())


def open_tracker(name: str | None, folder: Path, warn: Callable[[str], None]) -> Tracker:
    """The tracker of a name, which writes to `folder` if it writes files of its own; none without a name."""
    if name is None:
        return UNTRACKED
    if name not in TRACKERS:
        raise unknown_name("tracker", name, TRACKERS)
    require_extra(name, f"--log {name}")
    return cast(Tracker, Careful(name, folder, warn))


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted names with their values."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

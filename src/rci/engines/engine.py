"""What an engine is asked to do and what it says of it: tasks, work, news, and where all is done."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from rci.data.errors import RciError, unknown_name
from rci.data.extras import require_extra

Progress = Callable[[float], None]
ENGINES = ("local", "ray")


class Work(Protocol):
    """What is sent to a worker: plain data with one method."""

    def run(self, progress: Progress) -> None:
        """Do it. To do it again, or at the same time elsewhere, must do no harm."""


class Named(Protocol):
    """Something whose progress is reported."""

    @property
    def name(self) -> str:
        """Unique among the tasks of a run."""


def title_of(task: Named) -> str:
    """What people are shown of a task: its title, if it has one, or its name."""
    return str(getattr(task, "title", "") or task.name)


class Task(Named, Protocol):
    """A piece of work that knows whether it is done."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the tasks that come before it."""

    def outstanding(self) -> Work | None:
        """What is left to do, None if nothing; asked once, when all that it needs is done."""

    def land(self) -> None:
        """Called here, where the run was begun, once the work is done."""


# report(task, share done, seconds); share 1.0 = finished; seconds None = nothing had to be done
Report = Callable[[Named, float, float | None], None]
# accept(task that failed, why) -> whether the run may end well all the same
Accept = Callable[[Task, str], bool]


class Step(NamedTuple):
    """Work in this process that no engine knows of."""

    name: str


@contextlib.contextmanager
def reporting(report: Report, name: str) -> Iterator[Progress]:
    """Report work that is done here, under a name; yields the function to call with the share that is done."""
    step, started = Step(name), time.monotonic()
    report(step, 0.0, 0.0)
    yield lambda share: report(step, min(share, 0.999), 0.0)
    report(step, 1.0, time.monotonic() - started)


def accept_none(task: Task, why: str) -> bool:
    """Accept no failure."""
    return False


@dataclass(frozen=True)
class Engine:
    """Where work is done. store: a folder or an fsspec address where results are kept for other runs and machines."""

    kind: str = "local"
    workers: int | None = None  # at once; None = as many as there are cores
    address: str | None = None  # of a Ray cluster; None = one of this machine, for as long as the run lasts
    store: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise unknown_name("engine", self.kind, ENGINES)
        if self.address is not None and self.kind != "ray":
            raise RciError("--address is that of a Ray cluster; give --engine ray with it.")
        if self.store is not None:
            refuse_password(self.store)
        if self.kind == "ray":
            require_extra("ray", "the engine 'ray'")
        if self.store is not None:
            require_extra("store", "a store of results")
        if self.store == "":
            raise RciError("--store is empty; name a folder or an address.")
        if self.workers is not None and self.workers < 1:
            raise RciError(f"at least one worker is needed, not {self.workers}.")


LOCAL = Engine()


def refuse_password(url: str) -> None:
    """Refuse an address that should not be seen."""
    if urlsplit(url).password is not None:
        raise RciError(
            "an address must not have a password in it: addresses are kept with results. Give it as the storage "
            "library wants it, in the environment or in its own configuration."
        )


@dataclass(frozen=True)
class News:
    """Word of a task: a share of it is done, or all (1.0), or it failed, or its worker was lost."""

    task: Task
    share: float
    seconds: float
    error: str = ""  # why it failed, in one sentence
    log: str = ""  # what the worker had to say of it
    foreseen: bool = False  # whether it failed by an RciError, which says what is wrong with the task itself
    lost: bool = False


class Pool(Protocol):
    """The workers of an engine."""

    @property
    def busy(self) -> int:
        """How many tasks are being done."""

    def has_room(self) -> bool:
        """Whether another task can be started."""

    def start(self, task: Task, work: Work) -> None:
        """Give work to a worker."""

    def news(self) -> list[News]:
        """Wait for word of the tasks that were started."""

    def close(self) -> None:
        """End all workers at once; unfinished work leaves only temporary files, removed by the next writer."""

"""Run tasks that depend on each other: the same order and the same care wherever the work is done.

An engine only knows how to start work and what became of it. Everything else is here: what is ready, what is done
already, what is tried again because its worker was lost, what cannot be done because something before it failed.
"""

from __future__ import annotations

import contextlib
import heapq
import time
from collections import defaultdict
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.engines.engine import Accept, Engine, News, Pool, Report, Task, Work, accept_none

ATTEMPTS = 3  # of a task whose worker is lost under it: then it is the task that kills workers


def run_tasks(
    tasks: Sequence[Task],
    engine: Engine,
    report: Report,
    logs: Path | None = None,
    accept: Accept = accept_none,
    pool: Pool | None = None,
) -> None:
    """Do every task that is not done, each after those it needs, in the order given as far as possible.

    A task that fails does not stop the others, but for those that need it; all failures are reported last. What is
    finished stays, what is half-written never appears. logs: a folder for what was said of failed tasks. accept: asked
    of each failure that is neither a bug nor the loss of a worker; what it accepts does not fail the run, and what
    needs it is left undone. pool: workers to use, and to close at the end, instead of the engine's.
    """
    schedule = _Schedule(tasks)
    failures = dict[str, str]()
    lost = defaultdict[str, int](int)
    if pool is None and engine.kind == "local":  # costs nothing, and refuses more workers than cores at once
        pool = open_pool(engine)
    try:
        while schedule.ready or (pool is not None and pool.busy):
            while schedule.ready and (pool is None or pool.has_room()):
                task = schedule.next()
                work = task.outstanding()
                if work is None:
                    report(task, 1.0, None)
                    schedule.done(task)
                else:
                    pool = pool or open_pool(engine)
                    report(task, 0.0, 0.0)
                    pool.start(task, work)
            for news in pool.news() if pool is not None and pool.busy else ():
                name = news.task.name
                if news.lost:
                    lost[name] += 1
                if news.lost and lost[name] < ATTEMPTS:
                    schedule.again(news.task)
                elif news.error:
                    said = keep_failure(name, news.error, news.log, logs)
                    if news.foreseen and accept(news.task, news.error):
                        schedule.drop(name)
                    else:
                        failures[name] = said
                elif news.share < 1.0:
                    report(news.task, news.share, news.seconds)
                elif why := landing(news.task):
                    failures[name] = why
                else:
                    forget_failure(name, logs)
                    report(news.task, 1.0, news.seconds)
                    schedule.done(news.task)
    except RciError as error:  # of no single task: a store that cannot be reached, for instance
        raise RciError("\n".join([*_lines(failures), str(error)])) from error
    finally:
        if pool is not None:
            pool.close()
    if failures:
        raise RciError(_failure_text(failures, schedule.left - len(failures)))


class ThisProcess:
    """A pool without workers: work is done here, one piece after the other, and its mistakes are raised at once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.given: tuple[Task, Work] | None = None

    @property
    def busy(self) -> int:
        return self.given is not None

    def has_room(self) -> bool:
        return self.given is None

    def start(self, task: Task, work: Work) -> None:
        self.given = task, work

    def news(self) -> list[News]:
        if self.given is None:
            return []
        (task, work), self.given = self.given, None
        started = time.monotonic()
        work.run(lambda share: self.report(task, min(share, 0.999), 0.0))
        return [News(task, 1.0, time.monotonic() - started)]

    def close(self) -> None:
        self.given = None


def open_pool(engine: Engine) -> Pool:
    """The workers of an engine; none is started yet."""
    if engine.kind == "ray":
        from rci.engines.ray_engine import RayPool

        return RayPool(engine)
    from rci.engines.local import LocalPool

    return LocalPool(engine.workers)


class _Schedule:
    """Which tasks can be done now: those that need nothing that is not done, first come, first served."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = list(tasks)
        self.place = {task.name: i for i, task in enumerate(tasks)}
        self.missing = {task.name: set(task.needs) for task in tasks}
        self.left = len(self.tasks)
        unplanned = {name for needs in self.missing.values() for name in needs} - set(self.place)
        if unplanned:
            raise RuntimeError(
                f"somebody waits for tasks that nobody planned: {', '.join(sorted(unplanned))}"
            )
        if len(self.place) < len(self.tasks):
            raise RuntimeError("two tasks have the same name")
        try:
            TopologicalSorter(self.missing).prepare()
        except CycleError as error:
            raise RuntimeError(
                f"tasks wait for each other: {', '.join(sorted(set(error.args[1])))}"
            ) from None
        self.needed_by = defaultdict[str, list[str]](list)
        for task in tasks:
            for name in task.needs:
                self.needed_by[name].append(task.name)
        self.ready = [i for i, task in enumerate(tasks) if not task.needs]  # sorted, so it is a heap

    def next(self) -> Task:
        return self.tasks[heapq.heappop(self.ready)]

    def again(self, task: Task) -> None:
        heapq.heappush(self.ready, self.place[task.name])

    def drop(self, name: str) -> None:
        """Neither this task nor what needs it will be done."""
        given_up = [name]
        while given_up:
            name = given_up.pop()
            if name in self.missing:
                del self.missing[name]
                self.left -= 1
                given_up += self.needed_by[name]

    def done(self, task: Task) -> None:
        self.left -= 1
        for name in self.needed_by[task.name]:
            if name not in self.missing:  # dropped
                continue
            self.missing[name].discard(task.name)
            if not self.missing[name]:
                heapq.heappush(self.ready, self.place[name])


def landing(task: Task) -> str:
    """Let the output of a task come to where it belongs; why it cannot, if so."""
    try:
        task.land()
    except RciError as error:
        return str(error)
    return ""


def keep_failure(name: str, error: str, log: str, logs: Path | None) -> str:
    """Keep the log of a failed task; the sentence that reports it."""
    if logs is None or not log:
        return "\n".join(part for part in (error, log) if part)
    path = _log_of(name, logs)
    try:
        logs.mkdir(parents=True, exist_ok=True)
        write_file(path, log.encode())
    except (OSError, RciError):  # on a full disk, for instance: what failed is worth more than its log
        return error
    return f"{error} (log: {path})"


def forget_failure(name: str, logs: Path | None) -> None:
    """A task is done now: what was said of it in an earlier run is of no use."""
    if logs is not None and logs.is_dir():
        _log_of(name, logs).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # there are others
            logs.rmdir()


def _log_of(name: str, logs: Path) -> Path:
    return logs / f"{name.replace('/', '_')}.log"


def _lines(failures: dict[str, str]) -> list[str]:
    return [f"{name}: {why}" for name, why in failures.items()]


def _failure_text(failures: dict[str, str], waiting: int) -> str:
    lines = _lines(failures)
    if waiting:
        lines.append(f"{waiting} tasks that need what failed were not run.")
    if len(failures) > 1:
        lines.insert(0, f"{len(failures)} tasks failed; the others are done and kept.")
    return "\n".join(lines)

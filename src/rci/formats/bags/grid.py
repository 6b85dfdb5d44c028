"""Messages become steps: at every tick of a grid what was seen, and between two ticks what was done.

A run begins when every topic of obs, action and reward has spoken. Tick k is `start + k / rate`. The observation of
step k is that of tick k; its action and reward are those of the time behind tick k up to tick k + 1, ends included, so
what was commanded in answer to an observation stands beside it. `last` is the latest message up to the end of that
time, `mean` the mean of those in it, `linear` the line between the messages before and behind its end.

A stop belongs to the step in which it happens; a person drove a step if they drove at any time of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.formats.bags.mapping import BagMapping, Condition
from rci.formats.bags.timeline import SECOND, Sample
from rci.formats.importing.identity import key_lines
from rci.formats.importing.imported import Piece

MOST_AT_ONCE = 1_000_000  # steps between two messages


@dataclass
class Signal:
    """What is known of a column."""

    value: float | None = None
    time: int = 0  # of the value
    total: float = 0.0  # of the messages since the last tick
    count: int = 0


@dataclass
class Tick:
    """A tick that waits for values; None where a line still has no second end."""

    time: int
    values: list[float | None]
    human: bool


@dataclass
class Run:
    """A run that goes on."""

    start: int
    ticks: int = 0  # that are closed
    out: int = 0  # that are written
    stop: int = -1  # the step
    first: list[float] = field(default_factory=list)  # the first tick, until there is a step
    waiting: list[Tick] = field(default_factory=list)


class Grid:
    """Steps of one recording after the other."""

    def __init__(self, mapping: BagMapping, state: dict[str, Any]) -> None:
        self.mapping, self.columns = mapping, mapping.columns
        self.width = len(mapping.obs), len(mapping.action)
        self.need = {column.topic for column in self.columns}
        self.stops = range(len(mapping.stop))
        self.takeovers = range(len(mapping.stop), len(mapping.stop) + len(mapping.takeover))
        self.gap = round(mapping.max_gap * SECOND)
        self.about = state.get(
            "about", {"runs": 0, "gaps": {}, "short": 0, "early": 0, "messages": {}, "seconds": 0.0}
        )
        self.run: Run | None = None
        self._forget("")
        self._empty()
        if "signals" in state:
            self._restore(state)

    def begin(self, bag: str) -> None:
        """Another bag begins: nothing holds from the one before."""
        self._forget(bag)

    def take(self, sample: Sample) -> None:
        """Take in what a message says; times must not fall."""
        for topic in self.need:
            self._look_for_gap(topic, sample.time)
        self._close(sample.time - 1)
        for number, value in sample.conditions:
            self._hear(number, value, sample.time)
        if sample.topic not in self.need:
            return
        messages = self.about["messages"]
        messages[sample.topic] = messages.get(sample.topic, 0) + 1
        self.spoke[sample.topic] = sample.time
        for number, value in sample.columns:
            self._learn(number, value, sample.time)
        if self.run is None and self.active and len(self.spoke) == len(self.need):
            self._start(sample.time)

    def end(self) -> None:
        """The bag is over."""
        self._stop_run(max(self.spoke.values(), default=0))

    def piece(self) -> Piece:
        """The steps since the last piece."""
        obs, action = self.width
        mapping, rows = self.mapping, self.rows
        found = Piece(
            obs=np.array(rows["obs"], np.float64).reshape(-1, obs),
            action=np.array(rows["action"], np.float64).reshape(-1, action),
            reward=np.array(rows["reward"], np.float64),
            cost=None,
            lengths=np.array(rows["lengths"], np.int64),
            terminated=np.zeros(len(rows["lengths"]), bool),
            truncated=np.zeros(len(rows["lengths"]), bool),
            stop_index=np.array(rows["stop"], np.int64) if mapping.stop else None,
            severity=None,
            human=np.array(rows["human"], bool) if mapping.takeover else None,
            keys=key_lines(rows["keys"]),
        )
        self._empty()
        return found

    def state(self) -> dict[str, Any]:
        """Where it stands, in values that JSON can hold; only between pieces."""
        return {
            "about": self.about,
            "bag_name": self.bag,
            "signals": [asdict(signal) for signal in self.signals],
            "spoke": dict(self.spoke),
            "held": list(self.held),
            "human_seen": self.human_seen,
            "active": self.active,
            "episode": self.episode,
            "run": None if self.run is None else asdict(self.run),
        }

    def notes(self) -> list[str]:
        """What was decided, in plain words."""
        about, found = self.about, []
        for topic, count in about["gaps"].items():
            found.append(
                f"{count} runs end where {topic} was silent for more than max_gap = {self.mapping.max_gap:g} s"
            )
        if about["short"]:
            found.append(f"{about['short']} runs are shorter than one step, and left out")
        if about["early"]:
            found.append(
                f"{about['early']} runs begin while a stop holds: it does not count until it is given again"
            )
        for topic, count in about["messages"].items():
            rate = count / about["seconds"] if about["seconds"] else self.mapping.rate
            if rate < 0.8 * self.mapping.rate:
                found.append(
                    f"{topic} comes about {rate:.2g} times a second, less often than rate = {self.mapping.rate:g}: its "
                    "values are repeated, or lie on lines between messages where resample says so"
                )
        return found

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.bag = state["bag_name"]
        self.signals[:] = [Signal(**signal) for signal in state["signals"]]
        self.spoke |= state["spoke"]
        self.held[:] = state["held"]
        self.human_seen, self.active, self.episode = state["human_seen"], state["active"], state["episode"]
        if state["run"] is not None:
            waiting = [Tick(**tick) for tick in state["run"]["waiting"]]
            self.run = Run(**{**state["run"], "waiting": waiting})

    def _forget(self, bag: str) -> None:
        self.bag = bag
        self.signals = [Signal() for _ in self.columns]
        self.spoke: dict[str, int] = {}  # when each topic spoke last
        self.held: list[bool | None] = [None] * len(self.mapping.conditions)
        self.human_seen = False
        self.active = self.mapping.episode is None
        self.episode = ""
        self.run = None

    def _empty(self) -> None:
        names = ("obs", "action", "reward", "human", "lengths", "stop", "keys")
        self.rows: dict[str, list[Any]] = {name: [] for name in names}

    def _start(self, time: int) -> None:
        self.run = Run(time)
        for signal in self.signals:
            signal.total, signal.count = 0.0, 0
        self.human_seen = self._human()
        self.about["early"] += any(self.held[i] for i in self.stops)

    def _look_for_gap(self, topic: str, time: int) -> None:
        """End the run where a topic was silent for too long; all must speak again."""
        if not self.gap or topic not in self.spoke or time - self.spoke[topic] <= self.gap:
            return
        if self.run is not None:
            self.about["gaps"][topic] = self.about["gaps"].get(topic, 0) + 1
        self._stop_run(min(self.spoke.values()) + self.gap)
        self.spoke = {}

    def _learn(self, number: int, value: Any, time: int) -> None:
        column, signal = self.columns[number], self.signals[number]
        if isinstance(value, str):
            raise RciError(f"{self.bag}: {column.name} is a text, {value[:40]!r}, not a number.")
        value = float(value)
        if column.nonfinite is not None and not np.isfinite(value):
            value = column.nonfinite
        if self.run is not None and column.resample == "linear":
            for tick in self.run.waiting:
                if tick.values[number] is None:
                    before = signal.value if signal.value is not None else value
                    share = (tick.time - signal.time) / max(1, time - signal.time)  # may fall by JITTER
                    tick.values[number] = before + (value - before) * share
            self._write()
        signal.value, signal.time = value, time
        signal.total, signal.count = signal.total + value, signal.count + 1

    def _hear(self, number: int, value: Any, time: int) -> None:
        condition = self.mapping.conditions[number]
        if condition is self.mapping.episode and number == len(self.held) - 1:
            self._change_episode(condition, value, time)
            return
        holds, before = value in condition.values, self.held[number]
        self.held[number] = holds
        if number in self.stops and holds and not before and self.run is not None and self.run.stop < 0:
            self.run.stop = max(0, self.run.ticks - 1)
        if number in self.takeovers:
            self.human_seen |= holds

    def _change_episode(self, condition: Condition, value: Any, time: int) -> None:
        active = not condition.values or value in condition.values
        if (str(value), active) == (self.episode, self.active):
            return
        self._stop_run(time)
        self.episode, self.active = str(value), active
        if active and len(self.spoke) == len(self.need):
            self._start(time)

    def _human(self) -> bool:
        return any(self.held[i] for i in self.takeovers)

    def _close(self, until: int) -> None:
        """Close the ticks up to a time."""
        run = self.run
        if run is None:
            return
        if (until - run.start) * self.mapping.rate / SECOND - run.ticks > MOST_AT_ONCE:
            raise RciError(
                f"{self.bag}: after {_clock(run.start)} no message comes for more than {MOST_AT_ONCE} steps; the clock "
                "jumps, or max_gap and rate are too large."
            )
        while (time := run.start + round(run.ticks * SECOND / self.mapping.rate)) <= until:
            run.waiting.append(
                Tick(time, [self._value(i, time) for i in range(len(self.columns))], self.human_seen)
            )
            self.human_seen = self._human()
            run.ticks += 1
        self._write()

    def _value(self, number: int, time: int) -> float | None:
        signal, kind = self.signals[number], self.columns[number].resample
        mean = signal.total / signal.count if kind == "mean" and signal.count else signal.value
        signal.total, signal.count = 0.0, 0
        return None if kind == "linear" and signal.time < time else mean

    def _write(self) -> None:
        """Write the ticks that wait for nothing."""
        run = self.run
        while run is not None and run.waiting and None not in run.waiting[0].values:
            tick = run.waiting.pop(0)
            values = [float(value) for value in tick.values if value is not None]
            self._check_finite(values, tick.time)
            obs, action = self.width
            if run.out == 0:
                run.first = values
            else:
                if run.out == 1:
                    self.rows["obs"].append(run.first[:obs])
                    run.first = []
                self.rows["obs"].append(values[:obs])
                self.rows["action"].append(values[obs : obs + action])
                self.rows["reward"].append(values[-1] if self.mapping.reward else 0.0)
                self.rows["human"].append(tick.human)
            run.out += 1

    def _check_finite(self, values: list[float], time: int) -> None:
        for column, value in zip(self.columns, values):
            if not np.isfinite(value):
                raise RciError(
                    f"{self.bag}: {column.name} is {value} at {_clock(time)}; say what stands for it, as in "
                    f'{{field = "{column.name}", nonfinite = 30.0}}.'
                )

    def _stop_run(self, until: int) -> None:
        """The run ends at the last tick up to a time."""
        self._close(until)
        run, self.run = self.run, None
        if run is None:
            return
        for tick in run.waiting:  # lines without a second end stay at their last value
            tick.values = [
                self.signals[i].value if value is None else value for i, value in enumerate(tick.values)
            ]
        self.run = run
        self._write()
        self.run = None
        steps = run.out - 1
        if steps < 1:
            self.about["short"] += 1
            return
        self.about["seconds"] += steps / self.mapping.rate
        self.rows["lengths"].append(steps)
        self.rows["stop"].append(min(run.stop, steps - 1))
        episode = [self.episode] if self.mapping.episode is not None else []
        self.rows["keys"].append([self.bag, _clock(run.start), *episode])
        self.about["runs"] += 1


def _clock(time: int) -> str:
    """A time in nanoseconds as people write it."""
    try:
        seconds = datetime.fromtimestamp(time // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{time / SECOND:.3f} s"
    return f"{seconds}.{time % SECOND // 10**6:03d}Z"

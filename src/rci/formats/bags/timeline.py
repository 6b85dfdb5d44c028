"""The messages of a bag as values in the order of one clock, which has to run forward."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.errors import RciError
from rci.formats.bags.bag import Bag
from rci.formats.bags.container import Message, Topic
from rci.formats.bags.decoding import Decoder, Step
from rci.formats.bags.definitions import types_of
from rci.formats.bags.mapping import BagMapping

SECOND = 10**9
JITTER = SECOND // 10  # by which messages of a topic may be written out of order
DRIFT = SECOND  # by which stamps and log times may come apart
SLACK = 2 * SECOND  # by which stamps of different topics may lag behind each other
STAMP = (("header", "stamp", "sec"), ("header", "stamp", "nanosec"))


class Sample(NamedTuple):
    """What one message says. Sorted by its time."""

    time: int  # of the clock, in nanoseconds
    order: int
    log: int
    topic: str
    columns: list[tuple[int, Any]]  # number of the column, value
    conditions: list[tuple[int, Any]]


class Watched(NamedTuple):
    """How the messages of a topic are read."""

    decoder: Decoder
    columns: list[tuple[int, int]]  # place in what the decoder gives, number of the column
    conditions: list[tuple[int, int]]
    stamp: tuple[int, int] | None  # places of its seconds and nanoseconds


def watched_topics(bag: Bag, mapping: BagMapping, where: str) -> dict[str, Watched]:
    """How each topic of the mapping is read in a bag."""
    needed = {column.topic for column in mapping.columns}
    needed |= {condition.topic for condition in mapping.conditions if not condition.optional}
    for name in sorted(needed - set(bag.topics)):
        hint = ""
        if name not in {column.topic for column in mapping.columns}:
            hint = ' If it is there only once something happened, say optional = true beside "is".'
        raise RciError(f"{where} has no topic {name}.{hint} {_listed(bag.topics)}")
    named = [column.topic for column in mapping.columns] + [
        condition.topic for condition in mapping.conditions
    ]
    return {
        name: _watched(bag.topics[name], mapping, where)
        for name in dict.fromkeys(named)
        if name in bag.topics
    }


def _watched(topic: Topic, mapping: BagMapping, where: str) -> Watched:
    types = types_of(topic, where, Path(mapping.definitions) if mapping.definitions else None)
    positions: dict[tuple[Step, ...], int] = {}
    columns = [
        (positions.setdefault(column.path, len(positions)), number)
        for number, column in enumerate(mapping.columns)
        if column.topic == topic.name
    ]
    conditions = [
        (positions.setdefault(condition.path, len(positions)), number)
        for number, condition in enumerate(mapping.conditions)
        if condition.topic == topic.name
    ]
    header = next((what for name, (_, what) in types[topic.type] if name == "header"), None)
    stamp = None
    if header == "std_msgs/msg/Header":
        stamp = (
            positions.setdefault(STAMP[0], len(positions)),
            positions.setdefault(STAMP[1], len(positions)),
        )
    return Watched(
        Decoder(types, topic.type, positions, topic.encoding, f"{where}: a message of {topic.name}"),
        columns,
        conditions,
        stamp,
    )


class Timeline:
    """The samples of one bag. `state` is where it stands, in values that JSON can hold."""

    def __init__(self, bag: Bag, mapping: BagMapping, where: str, state: dict[str, Any]) -> None:
        self.bag, self.where, self.clock, self.state = bag, where, mapping.clock, state
        self.topics = watched_topics(bag, mapping, where)
        self.waiting: list[Sample] = []  # for something with an earlier stamp
        self.newest = 0  # log time that was read
        state.setdefault("log", 0)
        state.setdefault("read", -1)
        state.setdefault("time", -(1 << 62))
        for name in ("orders", "backward", "offsets"):
            state.setdefault(name, {})

    def samples(self) -> Iterator[Sample]:
        """All samples from where it stands."""
        samples = self._read()
        if self.clock == "header":
            samples = self._by_stamp(samples)
        after = self.state["time"]
        for sample in samples:
            if sample.time >= after:
                yield sample

    def stands_before(self, sample: Sample) -> None:
        """Everything before this sample is done."""
        log = min([sample.log, *(other.log for other in self.waiting)])
        self.state.update(time=sample.time, log=log, read=self.newest)

    def _read(self) -> Iterator[Sample]:
        since, checked = self.state["log"], self.state["read"]
        for message in self.bag.messages(self.topics, since):
            watched = self.topics[message.topic]
            if message.time > checked:
                self._check_order(message)
            if message.time < self.newest - JITTER:
                raise RciError(
                    f"{self.where}: a message of {message.topic}, {self._since_start(message.time)} after the start, "
                    f"comes behind others that are {_seconds(self.newest - message.time)} later: the index of the bag "
                    "is damaged, or its clock goes back; write the bag anew, or cut it there."
                )
            self.newest = max(self.newest, message.time)
            values = watched.decoder(message.data)
            time = message.time
            if watched.stamp is not None:
                seconds, rest = (values[place] for place in watched.stamp)
                if not isinstance(seconds, int) or not isinstance(rest, int):
                    raise RciError(
                        f"{self.where}: the stamps of {message.topic} are not two whole numbers, as those of ROS are; "
                        "the definition of its type is damaged."
                    )
                time = self._stamp(message, seconds * SECOND + rest)
            yield Sample(
                time,
                message.order,
                message.time,
                message.topic,
                [(number, values[place]) for place, number in watched.columns],
                [(number, values[place]) for place, number in watched.conditions],
            )

    def _check_order(self, message: Message) -> None:
        """Along the file, the times of a topic grow."""
        last: list[int] = self.state["orders"].setdefault(message.topic, [-1, message.time])
        if message.order >= last[0]:
            last[:] = [message.order, message.time]
            return
        back = self.state["backward"].setdefault(message.topic, [last[1], message.time])
        if message.time - back[1] > SECOND:
            back[0] = last[1]
        back[1] = message.time
        if message.time - back[0] > JITTER:
            raise RciError(
                f"{self.where}: the clock goes back by at least {_seconds(message.time - back[0])} at {message.topic}: "
                f"what was written later has earlier times, {self._since_start(back[0])} after the start; cut the bag "
                "there, and import the parts."
            )

    def _stamp(self, message: Message, stamp: int) -> int:
        """The time of a message that has a stamp."""
        if self.clock == "log":
            return message.time
        if self.clock == "header":
            if stamp == 0:
                raise RciError(
                    f"{self.where}: a message of {message.topic} has no stamp in its header, "
                    f'{self._since_start(message.time)} after the start; say clock = "log" in the mapping.'
                )
            return stamp
        if stamp:
            offset = message.time - stamp
            first = self.state["offsets"].setdefault(message.topic, offset)
            if abs(offset - first) > DRIFT:
                raise RciError(
                    f"{self.where}: stamps and log times of {message.topic} come apart by "
                    f"{_seconds(abs(offset - first))}, {self._since_start(message.time)} after the start: one of the "
                    'clocks jumped; say clock = "log" or clock = "header" in the mapping.'
                )
        return message.time

    def _by_stamp(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """In the order of stamps: each waits until nothing earlier can come."""
        before, read = self.state["time"], self.state["read"]
        done, newest = before, before
        latest: dict[str, int] = {}  # stamp of each topic
        for sample in samples:
            if sample.time < before and sample.log <= read:
                continue  # done before an interruption
            latest[sample.topic] = max(sample.time, latest.get(sample.topic, sample.time))
            if sample.time < done or sample.time < latest[sample.topic] - JITTER:
                raise RciError(
                    f"{self.where}: stamps of {sample.topic} go back, or are more than {_seconds(SLACK)} behind those "
                    f"of other topics, {self._since_start(sample.log)} after the start (by "
                    f'{_seconds(max(done, latest[sample.topic]) - sample.time)}); say clock = "log" in the mapping.'
                )
            newest = max(newest, sample.time)
            heapq.heappush(self.waiting, sample)
            while self.waiting and self.waiting[0].time < newest - SLACK:
                done = self.waiting[0].time
                yield heapq.heappop(self.waiting)
        while self.waiting:
            yield heapq.heappop(self.waiting)

    def _since_start(self, time: int) -> str:
        return _seconds(time - self.bag.start)


def rates_of(bag: Bag, names: list[str], most: int = 5000) -> str:
    """How often topics come in the first messages of a bag."""
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    last = bag.start
    for number, message in enumerate(bag.messages(names)):
        if number >= most:
            break
        first.setdefault(message.topic, message.time)
        counts[message.topic] = counts.get(message.topic, 0) + 1
        last = message.time
    rates = {name: (counts[name] - 1) * SECOND / max(1, last - first[name]) for name in counts}
    return ", ".join(f"{name} about {rate:.3g}" for name, rate in rates.items() if rate > 0)


def _listed(topics: Mapping[str, Topic]) -> str:
    if not topics:
        return "It has no topics at all."
    return "Its topics are: " + ", ".join(f"{name} ({topics[name].type})" for name in sorted(topics)) + "."


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / SECOND:.3g} s"

"""What a file of a bag gives, whatever its format: topics, and messages in the order of their log times.

Containers are read from the front, chunk by chunk, in bounded memory. Where one breaks off, `broken` says so, and what
stands before that can still be read.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Topic(NamedTuple):
    """A name under which messages of one type were published."""

    name: str
    type: str  # such as nav_msgs/msg/Odometry
    encoding: str  # of the messages: cdr or ros1, or another that is not read
    schema: str  # what the definition is written in: ros2msg, ros1msg, ros2idl; "" without one
    definition: str


class Message(NamedTuple):
    """A message as it was written. `order` grows along the file."""

    time: int  # at which it was logged, in nanoseconds
    order: int
    topic: str
    data: bytes


class Chunk(NamedTuple):
    """A stretch of a file that is unpacked at once."""

    start: int  # log times, in nanoseconds
    end: int
    place: int  # where it begins in the file
    size: int
    topics: set[int] | None  # numbers of the channels in it; None if only reading shows them


class Container(Protocol):
    """An open file of a bag."""

    path: Path
    topics: dict[str, Topic]
    start: int
    end: int
    broken: str  # why not all of it can be read; "" if all of it can

    def messages(self, names: Iterable[str], since: int) -> Iterator[Message]:
        """The messages of some topics from a log time on, in the order of their log times."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


def span(chunks: Sequence[Chunk]) -> tuple[int, int]:
    """The first and the last log time."""
    return min((chunk.start for chunk in chunks), default=0), max((chunk.end for chunk in chunks), default=-1)


def merged(
    chunks: Iterable[Chunk],
    names: Mapping[int, str],
    wanted: Iterable[str],
    read: Callable[[Chunk, set[int]], Iterable[Message]],
    since: int,
) -> Iterator[Message]:
    """Messages of the topics that are wanted, in the order of their times; `names` are those of the channels.

    Only chunks that overlap in time are held at once.
    """
    topics = set(wanted)
    numbers = {number for number, name in names.items() if name in topics}
    waiting: list[Message] = []
    for chunk in sorted(chunks, key=lambda chunk: chunk[:3]):
        if chunk.end < since or (chunk.topics is not None and not chunk.topics & numbers):
            continue
        while waiting and waiting[0].time < chunk.start:
            yield heapq.heappop(waiting)
        for message in read(chunk, numbers):
            if message.time >= since:
                heapq.heappush(waiting, message)
    while waiting:
        yield heapq.heappop(waiting)

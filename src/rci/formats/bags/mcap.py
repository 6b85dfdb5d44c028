"""MCAP files, by the public specification: https://mcap.dev/spec

They are read from the front, as the index at their end is missing where a recorder was killed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from rci.data.errors import RciError
from rci.formats.bags.container import Chunk, Message, Topic, merged, span
from rci.formats.bags.unpacking import Fields, taken, unpacked

MAGIC = b"\x89MCAP0\r\n"  # at the beginning and at the end
FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX = 0x02, 0x03, 0x04, 0x05, 0x06, 0x07
LOOSE_BYTES = 1 << 22  # of messages outside of chunks that are taken as one


class Schema(NamedTuple):
    """The definition of a message type."""

    name: str
    encoding: str
    text: str


class Channel(NamedTuple):
    """What a number in front of a message stands for."""

    schema: int
    topic: str
    encoding: str


class McapFile:
    """An MCAP file, open."""

    def __init__(self, path: Path) -> None:
        self.path, self.broken = path, ""
        self.size = path.stat().st_size
        self.schemas: dict[int, Schema] = {}
        self.channels: dict[int, Channel] = {}
        self.chunks: list[Chunk] = []
        self.loose: set[int] = set()  # places of chunks that are none: messages as they stand in the file
        self.file: BinaryIO = open(path, "rb")  # noqa: SIM115, closed by `close`
        try:
            self._walk()
            self._look_for_channels()
        except BaseException:
            self.close()
            raise
        self.topics = self._topics()
        self.start, self.end = span(self.chunks)

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()

    def messages(self, names: Iterable[str], since: int) -> Iterator[Message]:
        """The messages of some topics from a log time on, in the order of their log times."""
        topics = {number: channel.topic for number, channel in self.channels.items()}
        return merged(self.chunks, topics, names, self._messages, since)

    def _messages(self, chunk: Chunk, numbers: set[int]) -> Iterator[Message]:
        for place, op, record in self._records(chunk):
            if op != MESSAGE:
                continue
            number, _, time = struct.unpack_from("<HIQ", record)
            if number in numbers:
                yield Message(
                    time, chunk.place << 32 | place, self.channels[number].topic, bytes(record[22:])
                )

    def _records(self, chunk: Chunk) -> Iterator[tuple[int, int, memoryview]]:
        """The records in a chunk: place, kind, content."""
        self.file.seek(chunk.place)
        try:
            content = memoryview(taken(self.file, chunk.size))
            if chunk.place not in self.loose:
                fields = Fields(content)
                _, _, size, crc = fields.take("QQQI")
                packing = fields.text()
                content = unpacked(packing, fields.rest("Q"), size)
                if crc and zlib.crc32(content) != crc:
                    raise ValueError("its checksum is wrong")
            place = 0
            while place < len(content):
                op, length = struct.unpack_from("<BQ", content, place)
                if length > len(content) - place - 9 or (op == MESSAGE and length < 22):
                    raise ValueError(f"a record in it claims {length} bytes")
                yield place, op, content[place + 9 : place + 9 + length]
                place += 9 + length
        except (ValueError, struct.error) as error:
            raise RciError(f"{self.path} is damaged in the chunk at byte {chunk.place}: {error}.") from None

    def _walk(self) -> None:
        """Note where chunks are, without unpacking them."""
        self.file.seek(len(MAGIC))
        if self._whole():
            return
        if self.chunks:  # its index may be cut off as well
            self.chunks[-1] = self.chunks[-1]._replace(topics=None)

    def _whole(self) -> bool:
        """Whether the file ends as one that was closed."""
        while True:
            place = self.file.tell()
            head = self.file.read(9)
            if len(head) < 9:
                return self._breaks_off(place)
            op, length = struct.unpack("<BQ", head)
            if length > self.size - place - 9 or op == 0:
                return self._breaks_off(place)
            if op == FOOTER:
                self.file.seek(place + 9 + length)
                return self.file.read(8) == MAGIC or self._breaks_off(place)
            try:
                self._note(op, place + 9, length)
            except (struct.error, ValueError) as error:
                raise RciError(f"{self.path} is damaged at byte {place}: {error}.") from None
            self.file.seek(place + 9 + length)

    def _note(self, op: int, place: int, length: int) -> None:
        if op == CHUNK:
            start, end = struct.unpack("<QQ", self.file.read(16))
            self.chunks.append(Chunk(start, end, place, length, None))
        elif op == MESSAGE_INDEX and self.chunks:
            (number,) = struct.unpack("<H", self.file.read(2))
            indexed = self.chunks[-1].topics or set()
            indexed.add(number)
            self.chunks[-1] = self.chunks[-1]._replace(topics=indexed)
        elif op in (SCHEMA, CHANNEL):
            self._define(op, memoryview(taken(self.file, length)))
        elif op == MESSAGE:
            _, _, time = struct.unpack("<HIQ", self.file.read(14))
            begin, size = place - 9, length + 9
            last = self.chunks[-1] if self.chunks else Chunk(0, 0, -1, 0, None)
            if last.place in self.loose and last.place + last.size == begin and last.size < LOOSE_BYTES:
                start, end, begin, size = (
                    min(last.start, time),
                    max(last.end, time),
                    last.place,
                    last.size + size,
                )
                self.chunks[-1] = Chunk(start, end, begin, size, None)
            else:
                self.loose.add(begin)
                self.chunks.append(Chunk(time, time, begin, size, None))

    def _define(self, op: int, record: memoryview) -> None:
        fields = Fields(record)
        if op == SCHEMA:
            (number,) = fields.take("H")
            self.schemas[number] = Schema(fields.text(), fields.text(), fields.text())
        else:
            number, schema = fields.take("HH")
            self.channels[number] = Channel(schema, fields.text(), fields.text())

    def _look_for_channels(self) -> None:
        """Definitions stand in chunks; a file that was closed repeats them behind."""
        indexed = set().union(*(chunk.topics or () for chunk in self.chunks))
        all_listed = self.channels and indexed <= set(self.channels)
        if (
            all_listed
            and not self.broken
            and all(c.schema in self.schemas or not c.schema for c in self.channels.values())
        ):
            return
        for number, chunk in enumerate(self.chunks):
            if chunk.place in self.loose:
                continue
            try:
                for _, op, record in self._records(chunk):
                    if op in (SCHEMA, CHANNEL):
                        self._define(op, record)
            except (ValueError, struct.error) as error:
                if not self.broken:
                    self.broken = f"is damaged: {error}".rstrip(".")
                self.chunks = self.chunks[:number]
                return

    def _topics(self) -> dict[str, Topic]:
        topics = {}
        for channel in self.channels.values():
            schema = self.schemas.get(channel.schema, Schema("", "", ""))
            topics[channel.topic] = Topic(
                channel.topic, schema.name, channel.encoding, schema.encoding, schema.text
            )
        return topics

    def _breaks_off(self, place: int) -> bool:
        self.broken = f"breaks off at byte {place} of {self.size}: it was cut off, or its recorder was killed"
        return False

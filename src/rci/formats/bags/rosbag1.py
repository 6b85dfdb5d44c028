"""Bags of ROS 1, by the public description of their format, version 2.0: http://wiki.ros.org/Bags/Format/2.0

They are read from the front, as the index at their end is missing where a recorder was killed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rci.data.errors import RciError
from rci.formats.bags.container import Chunk, Message, Topic, merged, span
from rci.formats.bags.unpacking import CutError, taken, unpacked

VERSION = b"#ROSBAG V2.0\n"
MESSAGE, BAG, INDEX, CHUNK, CHUNK_INFO, CONNECTION = 2, 3, 4, 5, 6, 7
LARGEST_HEADER = 1 << 20


class RosbagFile:
    """A bag of ROS 1, open."""

    def __init__(self, path: Path) -> None:
        self.path, self.broken = path, ""
        self.size = path.stat().st_size
        self.names: dict[int, str] = {}  # of the topic, by number of the connection
        self.topics: dict[str, Topic] = {}
        self.chunks: list[Chunk] = []
        self.file: BinaryIO = open(path, "rb")  # noqa: SIM115, closed by `close`
        try:
            self._walk()
        except BaseException:
            self.close()
            raise
        self.start, self.end = span(self.chunks)

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()

    def messages(self, names: Iterable[str], since: int) -> Iterator[Message]:
        """The messages of some topics from a log time on, in the order of their log times."""
        return merged(self.chunks, self.names, names, self._messages, since)

    def _messages(self, chunk: Chunk, numbers: set[int]) -> Iterator[Message]:
        for place, op, fields, data in self._records(chunk):
            if op == MESSAGE and (number := _number(fields, b"conn")) in numbers:
                yield Message(
                    _time(fields[b"time"]), chunk.place << 32 | place, self.names[number], bytes(data)
                )

    def _records(self, chunk: Chunk) -> Iterator[tuple[int, int, dict[bytes, bytes], memoryview]]:
        """The records in a chunk: place, kind, header, content."""
        self.file.seek(chunk.place)
        try:
            fields, size = self._header()
            content = memoryview(taken(self.file, size))
            packing = fields[b"compression"].decode("ascii", "replace")
            content = unpacked(packing, content, _number(fields, b"size"))
            place = 0
            while place < len(content):
                (length,) = struct.unpack_from("<I", content, place)
                header = _fields(bytes(content[place + 4 : place + 4 + length]), length)
                (size,) = struct.unpack_from("<I", content, place + 4 + length)
                begin = place + 8 + length
                if size > len(content) - begin:
                    raise CutError(f"a record in it claims {size} bytes")
                if _op(header) == MESSAGE:
                    _number(header, b"conn"), _time(header[b"time"])  # a header without them is damaged
                yield place, _op(header), header, content[begin : begin + size]
                place = begin + size
        except (ValueError, LookupError, struct.error) as error:
            raise RciError(
                f"{self.path} is damaged in the chunk at byte {chunk.place}: {_said(error)}."
            ) from None

    def _walk(self) -> None:
        """Note where chunks are, without unpacking them."""
        if self.file.read(len(VERSION)) != VERSION:
            raise RciError(f"{self.path} is a ROS 1 bag, but not of version 2.0; rosbag migrates older ones.")
        place, expected = len(VERSION), -1  # chunks that there should be
        infos = 0
        while place < self.size:
            self.file.seek(place)
            try:
                fields, size = self._header()
                begin = self.file.tell()
                if size > self.size - begin:
                    raise CutError("it claims more bytes than there are")
                op = _op(fields)
                if op == BAG:
                    expected = _number(fields, b"chunk_count") if _long(fields, b"index_pos") else -1
                    if fields.get(b"encryptor"):
                        raise RciError(f"{self.path} is encrypted; decrypt it first: `rosbag decrypt`.")
                elif op == CONNECTION:
                    self._connect(fields, taken(self.file, size))
                elif op == CHUNK:
                    self.chunks.append(Chunk(0, 0, place, begin + size - place, None))
                elif op == INDEX and self.chunks:
                    self._index(fields, taken(self.file, size))
                infos += op == CHUNK_INFO
            except RciError:
                raise
            except (LookupError, ValueError, struct.error):
                break
            place = begin + size
        if place < self.size or infos != expected or expected != len(self.chunks):
            self.broken = (
                f"breaks off at byte {place} of {self.size}: it was cut off, or its recorder was killed"
            )
        if self.broken or any(chunk.topics is None for chunk in self.chunks):
            self._look_into_chunks()

    def _look_into_chunks(self) -> None:
        """What the index of a bag says that was not closed: connections, and the times of the last chunk."""
        for number, chunk in enumerate(self.chunks):
            times = []
            try:
                for _, op, fields, data in self._records(chunk):
                    if op == CONNECTION:
                        self._connect(fields, bytes(data))
                    elif op == MESSAGE:
                        times.append(_time(fields[b"time"]))
            except (LookupError, ValueError, struct.error) as error:
                self.broken = self.broken or f"is damaged: {_said(error)}".rstrip(".")
                del self.chunks[number:]
                return
            self.chunks[number] = Chunk(
                min(times, default=0), max(times, default=-1), chunk.place, chunk.size, None
            )

    def _index(self, fields: dict[bytes, bytes], data: bytes) -> None:
        """Which connection is in the last chunk, and when."""
        last, count = self.chunks[-1], _number(fields, b"count")
        if len(data) != 12 * count:
            raise CutError("an index has the wrong length")
        times = [seconds * 10**9 + rest for seconds, rest, _ in struct.iter_unpack("<III", data)]
        if last.topics is not None:
            times += [last.start, last.end]
        topics = last.topics or set()
        topics.add(_number(fields, b"conn"))
        self.chunks[-1] = Chunk(min(times, default=0), max(times, default=-1), last.place, last.size, topics)

    def _connect(self, fields: dict[bytes, bytes], data: bytes) -> None:
        about = _fields(data, len(data))
        name, kind = (text.decode("utf-8", "replace") for text in (fields[b"topic"], about[b"type"]))
        name = "/" + "/".join(part for part in name.split("/") if part)
        package, _, plain = kind.partition("/")
        self.names[_number(fields, b"conn")] = name
        definition = about[b"message_definition"].decode("utf-8", "replace")
        self.topics[name] = Topic(name, f"{package}/msg/{plain}", "ros1", "ros1msg", definition)

    def _header(self) -> tuple[dict[bytes, bytes], int]:
        """The header of the record that begins here, and how long its content is."""
        (length,) = struct.unpack("<I", self.file.read(4))
        if length > LARGEST_HEADER:
            raise CutError("a header claims too many bytes")
        fields = _fields(self.file.read(length), length)
        (size,) = struct.unpack("<I", self.file.read(4))
        return fields, size


def _fields(header: bytes, length: int) -> dict[bytes, bytes]:
    """The fields of a header, name=value."""
    if len(header) != length:
        raise CutError("a header is cut off")
    fields, place = {}, 0
    while place < length:
        (size,) = struct.unpack_from("<I", header, place)
        if size > length - place - 4:
            raise CutError("a field is longer than its header")
        name, equals, value = header[place + 4 : place + 4 + size].partition(b"=")
        if not equals:
            raise CutError("a field has no name")
        fields[name] = value
        place += 4 + size
    return fields


def _op(fields: dict[bytes, bytes]) -> int:
    return int(struct.unpack("<B", fields[b"op"])[0])


def _number(fields: dict[bytes, bytes], name: bytes) -> int:
    return int(struct.unpack("<I", fields[name])[0])


def _long(fields: dict[bytes, bytes], name: bytes) -> int:
    return int(struct.unpack("<Q", fields[name])[0])


def _time(value: bytes) -> int:
    seconds, rest = struct.unpack("<II", value)
    return int(seconds * 10**9 + rest)


def _said(error: Exception) -> str:
    return f"a header has no {error}" if isinstance(error, LookupError) else str(error).rstrip(".")

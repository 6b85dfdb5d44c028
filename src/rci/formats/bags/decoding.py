"""Numbers out of messages: only the fields that are wanted, and nothing behind the last of them.

A message type becomes a list of parts: runs of numbers of fixed sizes, which are unpacked at once, and texts and lists,
whose lengths the message says. CDR aligns a number to its size, counted from behind the four bytes in front.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rci.data.errors import RciError, unknown_name
from rci.formats.bags.definitions import Types
from rci.formats.importing.imported import optional

Step = str | int  # into a message: the name of a field, or a place in a list
CODES = {
    "bool": "B", "byte": "B", "char": "B", "octet": "B", "uint8": "B", "int8": "b", "int16": "h", "uint16": "H",
    "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip
MOST_INLINE = 64  # elements of a fixed list of messages that are written out
MOST_FIELDS = 1 << 16  # of a message with all its parts


@dataclass
class Wanted:
    """What is wanted of a message, or of a part of it."""

    column: int | None = None
    parts: dict[Step, Wanted] = field(default_factory=dict)

    def add(self, path: tuple[Step, ...], column: int) -> None:
        """Want the field at a path as this column."""
        if path:
            self.parts.setdefault(path[0], Wanted()).add(path[1:], column)
        elif self.column is None:
            self.column = column
        else:
            raise RciError("a field is named twice in one place.")


@dataclass
class Run:
    """Numbers of fixed sizes, one after the other: code, size, column."""

    numbers: list[tuple[str, int, int | None]]
    packed: dict[tuple[int, str], tuple[struct.Struct, list[int]]] = field(default_factory=dict)

    def unpack(self, data: bytes, place: int, order: str, aligned: bool, out: list[Any]) -> int:
        """Read the numbers that are wanted; where they end."""
        key = (place % 8 if aligned else 0, order)
        if key not in self.packed:
            self.packed[key] = self._pack(*key, aligned)
        kind, columns = self.packed[key]
        for column, number in zip(columns, kind.unpack_from(data, place)):
            out[column] = number
        return place + kind.size

    def _pack(self, begin: int, order: str, aligned: bool) -> tuple[struct.Struct, list[int]]:
        place, text, columns = begin, order, []
        for code, size, column in self.numbers:
            gap = -place % min(size, 8) if aligned else 0
            text += "x" * gap + (f"{size}x" if column is None else code)
            columns += [] if column is None else [column]
            place += gap + size
        return struct.Struct(text), columns


@dataclass
class Text:
    """A text."""

    column: int | None


@dataclass
class Unread:
    """A number of a kind that is not read; what stands behind it cannot be read either."""

    name: str
    column: int | None


@dataclass
class Numbers:
    """A list of numbers whose length the message says; `length` if the type does."""

    code: str
    size: int
    columns: dict[int, int]  # by place in the list
    length: int | None


@dataclass
class Parts:
    """A list of texts or messages."""

    default: list[Any]
    special: dict[int, list[Any]]  # those of which something is wanted
    length: int | None


class Decoder:
    """Reads the wanted fields of the messages of one topic."""

    def __init__(
        self, types: Types, kind: str, paths: Mapping[tuple[Step, ...], int], encoding: str, where: str
    ):
        wanted = Wanted()
        for path, column in paths.items():
            wanted.add(path, column)
        self.aligned, self.where, self.kind = encoding == "cdr", where, kind
        self.columns = max(paths.values()) + 1
        self.nodes = optional("rosbags.interfaces", "rosbags", "bags").Nodetype
        self.types = types
        self.plan: list[Any] = []
        self.fields = 0
        self._message(kind, wanted, self.plan, "")
        while self.plan and not _wants(self.plan[-1]):
            self.plan.pop()

    def __call__(self, data: bytes) -> list[Any]:
        """The wanted fields, in the order of their columns."""
        out: list[Any] = [None] * self.columns
        order, begin = "<", 0
        try:
            if self.aligned:
                if data[:2] not in (b"\0\0", b"\0\1"):
                    raise ValueError(f"it begins with {data[:2].hex()}, which is not plain CDR")
                order, data = "<" if data[1] else ">", data[4:]
            _read(self.plan, data, begin, order, self.aligned, out)
        except (ValueError, struct.error, IndexError, OverflowError) as error:
            raise RciError(f"{self.where} cannot be read as {self.kind}: {error}.") from None
        return out

    def _message(self, kind: str, wanted: Wanted, plan: list[Any], path: str) -> None:
        fields = self.types[kind]
        for name in wanted.parts:
            if isinstance(name, int):
                raise RciError(f"{self.where}{path} is one {kind}, not a list: leave out [{name}].")
            if name not in dict(fields):
                raise unknown_name(
                    f"field of {self.where.split(' at')[0]}{path}", name, [name for name, _ in fields]
                )
        if wanted.column is not None:
            raise RciError(
                f"{self.where}{path} is a whole {kind}, not a number; name one of its fields: "
                f"{', '.join(name for name, _ in fields)}."
            )
        if not fields and self.aligned:
            _number(plan, "B", 1, None)  # a message without fields has a byte
        for name, (node, what) in fields:
            self._field(node, what, wanted.parts.get(name, Wanted()), plan, f"{path}.{name}")

    def _field(self, node: int, what: Any, wanted: Wanted, plan: list[Any], path: str) -> None:
        self.fields += 1
        if self.fields > MOST_FIELDS:
            raise RciError(f"{self.where}: {self.kind} is made of more than {MOST_FIELDS} fields.")
        if node == self.nodes.NAME:
            self._message(what, wanted, plan, path)
        elif node == self.nodes.BASE:
            if wanted.parts:
                raise RciError(f"{self.where}{path} is one {what[0]}: nothing is inside of it.")
            self._base(what[0], wanted.column, plan, path)
        else:
            (inner, kind), count = what
            self._list(inner, kind, count if node == self.nodes.ARRAY else None, wanted, plan, path)

    def _base(self, name: str, column: int | None, plan: list[Any], path: str) -> None:
        if name == "string":
            plan.append(Text(column))
        elif name in CODES:
            _number(plan, CODES[name], struct.calcsize("<" + CODES[name]), column)
        else:
            plan.append(Unread(name, column))

    def _list(
        self, inner: int, kind: Any, length: int | None, wanted: Wanted, plan: list[Any], path: str
    ) -> None:
        if wanted.column is not None:
            raise RciError(
                f"{self.where}{path} is a list; name its numbers: {path.lstrip('.')}[0] or [0:12:3]."
            )
        for place in wanted.parts:
            if not isinstance(place, int):
                raise RciError(
                    f"{self.where}{path} is a list; name an element in front of {place!r}, as in [0]."
                )
            if length is not None and place >= length:
                raise RciError(f"{self.where}{path} has {length} elements, so there is no [{place}].")
        special = {place: part for place, part in wanted.parts.items() if isinstance(place, int)}
        if inner == self.nodes.BASE and kind[0] in CODES:
            for place, part in special.items():
                if part.parts:
                    raise RciError(f"{self.where}{path}[{place}] is one {kind[0]}: nothing is inside of it.")
            columns = {place: part.column for place, part in special.items() if part.column is not None}
            code = CODES[kind[0]]
            plan.append(Numbers(code, struct.calcsize("<" + code), columns, length))
            return
        if length is not None and length <= MOST_INLINE:
            for place in range(length):
                self._field(inner, kind, special.get(place, Wanted()), plan, f"{path}[{place}]")
            return
        default: list[Any] = []
        self._field(inner, kind, Wanted(), default, path)
        plans: dict[int, list[Any]] = {}
        for place, part in special.items():
            plans[place] = []
            self._field(inner, kind, part, plans[place], f"{path}[{place}]")
        plan.append(Parts(default, plans, length))


def _number(plan: list[Any], code: str, size: int, column: int | None) -> None:
    if not plan or not isinstance(plan[-1], Run):
        plan.append(Run([]))
    plan[-1].numbers.append((code, size, column))


def _wants(part: Any) -> bool:
    if isinstance(part, Run):
        return any(column is not None for _, _, column in part.numbers)
    if isinstance(part, Text | Unread):
        return part.column is not None
    return bool(part.columns if isinstance(part, Numbers) else part.special)


def _read(plan: list[Any], data: bytes, place: int, order: str, aligned: bool, out: list[Any]) -> int:
    """Read the parts of a plan; where they end."""
    for part in plan:
        place = READERS[type(part)](part, data, place, order, aligned, out)
    return place


def _read_run(part: Run, data: bytes, place: int, order: str, aligned: bool, out: list[Any]) -> int:
    return part.unpack(data, place, order, aligned, out)


def _read_text(part: Text, data: bytes, place: int, order: str, aligned: bool, out: list[Any]) -> int:
    length, place = _length(None, data, place, order, aligned)
    if length > len(data) - place:
        raise ValueError(f"a text claims {length} bytes, and {len(data) - place} are left")
    if part.column is not None:
        out[part.column] = data[place : place + length].rstrip(b"\0").decode("utf-8", "replace")
    return place + length


def _read_numbers(part: Numbers, data: bytes, place: int, order: str, aligned: bool, out: list[Any]) -> int:
    length, place = _length(part.length, data, place, order, aligned)
    if aligned and length:
        place += -place % part.size
    if length * part.size > len(data) - place:
        raise ValueError(f"a list claims {length} numbers, and {max(0, len(data) - place)} bytes are left")
    for at, column in part.columns.items():
        if at >= length:
            raise ValueError(f"a list has {length} elements in this message, so there is no [{at}]")
        (out[column],) = struct.unpack_from(order + part.code, data, place + at * part.size)
    return place + length * part.size


def _read_parts(part: Parts, data: bytes, place: int, order: str, aligned: bool, out: list[Any]) -> int:
    length, place = _length(part.length, data, place, order, aligned)
    for at in part.special:
        if at >= length:
            raise ValueError(f"a list has {length} elements in this message, so there is no [{at}]")
    if not part.default:
        return place  # elements without any content
    if length > len(data) - place:
        raise ValueError(f"a list claims {length} elements, and {len(data) - place} bytes are left")
    for at in range(length):
        place = _read(part.special.get(at, part.default), data, place, order, aligned, out)
    return place


def _refuse(part: Unread, data: bytes, place: int, order: str, aligned: bool, out: list[Any]) -> int:
    raise ValueError(f"it has a number of type {part.name}, which is not read")


def _length(fixed: int | None, data: bytes, place: int, order: str, aligned: bool) -> tuple[int, int]:
    """How long a text or list is, and where it begins."""
    if fixed is not None:
        return fixed, place
    if aligned:
        place += -place % 4
    (length,) = struct.unpack_from(f"{order}I", data, place)
    return length, place + 4


READERS: dict[type, Callable[..., int]] = {
    Run: _read_run, Text: _read_text, Unread: _refuse, Numbers: _read_numbers, Parts: _read_parts,
}  # fmt: skip

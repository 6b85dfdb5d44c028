"""What messages are made of: definitions that stand in the bag, in a folder, or that every ROS has.

Definitions are read as data, by the parsers of `rosbags`; no code is made of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.formats.bags.container import Topic
from rci.formats.importing.imported import first_line, optional

Field = tuple[str, Any]  # name, and what it is: see rosbags.interfaces.Nodetype
Types = dict[str, list[Field]]  # the fields of each message type
LONGEST = 1 << 20  # of a definition
SEPARATOR = "=" * 80
TEXTS = re.compile(r'"(?:\\.|[^"\\])*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
ANNOTATIONS = re.compile(r"@[\w:]+\s*\([^()]*\)")
# The parser takes fifty times as long for each level of these.
SLOW = re.compile(r"\(|<<|<[^<>;]*<[^<>;]*<")


def types_of(topic: Topic, where: str, folder: Path | None = None) -> Types:
    """The type of a topic and all that it is made of."""
    if topic.encoding not in ("cdr", "ros1"):
        raise RciError(
            f"{where}: messages of {topic.name} are written as {topic.encoding or 'something unknown'!r}; cdr and ros1 "
            "are read."
        )
    types = dict(_standard("ROS2_HUMBLE" if topic.encoding == "cdr" else "EMPTY"))
    if topic.definition:
        types |= _parsed(
            topic.type, topic.schema, topic.definition, f"{where}: the definition of {topic.type}"
        )
    elif topic.type not in types and folder is not None:
        types |= _from_folder(topic.type, folder)
    if topic.type not in types:
        raise RciError(
            f"{where}: the message type {topic.type} of {topic.name} is unknown: the bag has no definition of it (bags "
            "from before ROS 2 Iron have none), and it is not a standard type; put its .msg files in a folder as "
            'PACKAGE/msg/NAME.msg, and say definitions = "FOLDER" in the mapping.'
        )
    _check_complete(topic.type, types, where)
    return types


def _parsed(name: str, schema: str, text: str, where: str) -> Types:
    """The types in a definition."""
    if len(text) > LONGEST:
        raise RciError(f"{where} has {len(text)} characters; at most {LONGEST} are read.")
    system = optional("rosbags.typesys", "rosbags", "bags")
    try:
        if schema in ("ros2msg", "ros1msg"):
            return _fields(system.get_types_from_msg(text, name))
        if schema in ("ros2idl", "omgidl"):
            if SLOW.search(ANNOTATIONS.sub("", TEXTS.sub("", text))):
                raise ValueError(
                    "IDL with parentheses or shifts in constants, or lists of lists of lists, is not read"
                )
            parts = [
                part.partition("\n")[2] for part in text.split(f"{SEPARATOR}\n") if part.startswith("IDL: ")
            ]
            found: Types = {}
            for part in parts or [text]:
                found |= _fields(system.get_types_from_idl(part))
            return found
    except RecursionError:
        raise RciError(f"{where} is nested too deeply.") from None
    except Exception as error:  # a parser that others wrote, on what anybody may have written
        raise RciError(f"{where} cannot be read: {first_line(error)[:200]}.") from None
    raise RciError(f"{where} is written in {schema!r}; ros2msg, ros1msg and ros2idl are read.")


def _from_folder(name: str, folder: Path) -> Types:
    """A type and what it is made of, from files PACKAGE/msg/NAME.msg."""
    found: Types = {}
    waiting = [name]
    while waiting:
        kind = waiting.pop()
        parts = kind.split("/")
        path = folder.joinpath(parts[0], "msg", f"{parts[-1]}.msg")
        if kind in found or kind in _standard("ROS2_HUMBLE") or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RciError(f"cannot read {path}: {error}.") from None
        found |= _parsed(kind, "ros2msg", text, str(path))
        waiting += _parts(found.get(kind, []))
    return found


def _check_complete(name: str, types: Types, where: str) -> None:
    """Everything that a type is made of is there, and no type is a part of itself."""
    done: set[str] = set()

    def look(kind: str, above: tuple[str, ...]) -> None:
        if kind in above:
            raise RciError(f"{where}: the message type {kind} is a part of itself.")
        if kind not in types:
            raise RciError(f"{where}: the message type {kind}, a part of {name}, has no definition.")
        if kind not in done:
            for part in _parts(types[kind]):
                look(part, (*above, kind))
            done.add(kind)

    try:
        look(name, ())
    except RecursionError:
        raise RciError(f"{where}: the message type {name} is nested too deeply.") from None


def _parts(fields: list[Field]) -> Iterator[str]:
    nodes = optional("rosbags.interfaces", "rosbags", "bags").Nodetype
    for _, (node, what) in fields:
        kind, inner = what[0] if node in (nodes.ARRAY, nodes.SEQUENCE) else (node, what)
        if kind == nodes.NAME:
            yield inner


def _fields(parsed: dict[str, Any]) -> Types:
    return {name: [(str(field), desc) for field, desc in fields] for name, (_, fields) in parsed.items()}


@cache
def _standard(store: str) -> Types:
    """What comes with ROS: all of Humble, the last whose bags have no definitions, or times and durations only."""
    system = optional("rosbags.typesys", "rosbags", "bags")
    return _fields(system.get_typestore(system.Stores[store]).fielddefs)

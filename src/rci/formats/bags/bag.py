"""Bags: files or folders, opened by their first bytes; the files of one recording are read as one."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rci.data.errors import RciError
from rci.formats.bags.container import Container, Message, Topic
from rci.formats.bags.mcap import McapFile
from rci.formats.bags.rosbag1 import RosbagFile
from rci.formats.bags.sqlite import SqliteFile

MAGIC = {b"\x89MCAP0\r\n": "mcap", b"#ROSBAG V": "rosbag1", b"SQLite format 3\0": "sqlite"}
ENDINGS = (".bag", ".mcap", ".db3")


class Bag:
    """One recording: a file, or the files of a folder with a metadata.yaml."""

    def __init__(self, name: str, containers: list[Container]) -> None:
        self.name, self.containers = name, containers
        self.topics: dict[str, Topic] = {}
        for container in containers:
            for topic in container.topics.values():
                for text in topic[:4]:
                    if not text.isprintable():
                        raise RciError(
                            f"{container.path} is damaged: a topic or its type is called {text!r}."
                        )
                first = self.topics.setdefault(topic.name, topic)
                if first.type != topic.type:
                    raise RciError(
                        f"{container.path}: the topic {topic.name} has messages of {topic.type}, but before of "
                        f"{first.type}."
                    )
        self.start = min(container.start for container in containers)
        self.end = max(container.end for container in containers)

    def messages(self, names: Iterable[str], since: int = 0) -> Iterator[Message]:
        """The messages of some topics from a log time on, in the order of their log times."""
        wanted = list(names)
        parts = [
            _numbered(container.messages(wanted, since), number)
            for number, container in enumerate(self.containers)
            if container.end >= since
        ]
        return heapq.merge(*parts)


def has_bags(path: Path) -> bool:
    """Whether the names at a path look like those of bags."""
    if not path.is_dir():
        return path.suffix in ENDINGS
    return any(_is_bag_file(entry) for entry in path.iterdir()) or any(
        has_bags(found.parent) for found in path.glob("*/metadata.yaml")
    )


def files_of_bags(path: Path) -> list[tuple[str, list[Path]]]:
    """The bags at a path, each with its files: a file, the folder of a bag, or a folder of such."""
    if path.is_file():
        return [(path.name, [path])]
    if not path.is_dir():
        raise RciError(f"there is no bag {path}: neither a file nor a folder.")
    if (path / "metadata.yaml").is_file():
        return [(path.name, _files_in(path))]
    bags = [(entry.name, [entry]) for entry in _ordered(path.iterdir()) if _is_bag_file(entry)]
    folders = [entry.parent for entry in path.glob("*/metadata.yaml")]
    bags += [(folder.name, _files_in(folder)) for folder in _ordered(folders)]
    if not bags:
        raise RciError(
            f"{path} has no bags in it: neither files that end with {', '.join(ENDINGS)} nor folders with a "
            "metadata.yaml."
        )
    return bags


@contextmanager
def open_bag(name: str, files: list[Path], partial: bool) -> Iterator[Bag]:
    """A bag, open while it is read. Without `partial`, one that breaks off is refused."""
    with ExitStack() as stack:
        containers = []
        for path in files:
            container = open_container(path)
            stack.callback(container.close)
            if container.broken and not partial:
                raise RciError(
                    f"{path} {container.broken}; --partial (partial=True) imports what can be read of it."
                )
            containers.append(container)
        yield Bag(name, containers)


def open_container(path: Path) -> Container:
    """A file of a bag, by its first bytes."""
    try:
        with open(path, "rb") as file:
            begin = file.read(16)
    except OSError as error:
        raise RciError(f"cannot read {path}: {error.strerror or error}.") from None
    kinds: dict[str, Callable[[Path], Container]] = {
        "mcap": McapFile,
        "rosbag1": RosbagFile,
        "sqlite": SqliteFile,
    }
    for magic, kind in MAGIC.items():
        if begin.startswith(magic):
            return kinds[kind](path)
    raise RciError(
        f"{path} is not a bag: it begins neither like MCAP nor like a ROS 1 bag nor like SQLite (.db3)."
        + (" It is packed as a whole: unpack it with `zstd -d` first." if path.suffix == ".zstd" else "")
    )


def _numbered(messages: Iterable[Message], number: int) -> Iterator[Message]:
    return (
        (message._replace(order=message.order | number << 80) for message in messages)
        if number
        else iter(messages)
    )


def _files_in(folder: Path) -> list[Path]:
    files = [entry for entry in _ordered(folder.iterdir()) if _is_bag_file(entry)]
    packed = [entry.name for entry in folder.iterdir() if entry.suffix == ".zstd"]
    if packed and not files:
        raise RciError(f"{folder}: {packed[0]} is packed as a whole: unpack it with `zstd -d` first.")
    if not files:
        raise RciError(f"{folder} has a metadata.yaml, but no file that ends with {', '.join(ENDINGS)}.")
    return files


def _is_bag_file(path: Path) -> bool:
    return path.suffix in ENDINGS and path.is_file() and not path.name.startswith(".")


def _ordered(paths: Iterable[Path]) -> list[Path]:
    """By name, with numbers in names by size: drive_2 before drive_10."""
    return sorted(
        paths, key=lambda p: [(int(s), "") if s.isdigit() else (-1, s) for s in re.split(r"(\d+)", p.name)]
    )

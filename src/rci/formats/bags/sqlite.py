"""Bags of ROS 2 in SQLite (.db3): tables `topics` and `messages`, and from ROS 2 Iron on `message_definitions`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from rci.data.errors import RciError
from rci.formats.bags.container import Message, Topic
from rci.formats.importing.imported import first_line

LARGEST = 1 << 28  # of a message
COLUMNS = {
    "topics": ("id", "name", "type", "serialization_format"),
    "messages": ("id", "topic_id", "timestamp", "data"),
    "message_definitions": ("topic_type", "encoding", "encoded_message_definition"),
}


class SqliteFile:
    """A .db3 file, open for reading only."""

    def __init__(self, path: Path) -> None:
        self.path, self.broken = path, ""
        for log in (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal")):
            if log.is_file() and log.stat().st_size:
                self.broken = (
                    f"was not closed: some of its messages may stand in {log.name}; opened and closed by sqlite3, it "
                    "is whole again"
                )
        size = path.stat().st_size
        self._check_length(size)
        self.base = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        try:
            self.base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(LARGEST, max(size, 1 << 16)))
            self.base.execute("PRAGMA trusted_schema=OFF")
            self.base.text_factory = lambda text: text.decode("utf-8", "replace")
            if self.broken:
                self.base.execute("PRAGMA writable_schema=ON")  # which only means: read what is there
            self._check_tables()
            self.ids: dict[int, str] = {}
            self.topics = self._topics()
            self.start, self.end = self._times()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            raise RciError(f"{path} is damaged, or no bag: {first_line(error)}.") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self.base.close()

    def messages(self, names: Iterable[str], since: int) -> Iterator[Message]:
        """The messages of some topics from a log time on, in the order of their log times."""
        wanted = set(names)
        ids = [number for number, name in self.ids.items() if name in wanted]
        marks = ",".join("?" * len(ids))
        # Of what is left of a table no index is used: a plus before the column says so.
        time, order = ("+timestamp", "id") if self.broken else ("timestamp", "timestamp, id")
        query = (
            f"SELECT timestamp, id, topic_id, data FROM messages WHERE {time} >= ? AND topic_id IN ({marks}) "
            f"ORDER BY {order}"
        )
        count = 0
        try:
            for moment, row, number, data in self.base.execute(query, [since, *ids]):
                if (type(moment), type(row), type(data)) != (int, int, bytes):
                    raise RciError(
                        f"{self.path}: message {row!r:.40} is damaged: its time, number or data are of a wrong kind."
                    )
                count += 1
                yield Message(moment, row, self.ids[number], data)
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            if self.broken and count:
                return
            raise RciError(
                f"{self.path} is damaged: {first_line(error)}; `sqlite3 {self.path.name} .recover | sqlite3 "
                "new.db3` may save what is left."
            ) from None

    def _check_length(self, size: int) -> None:
        """The header says how many pages there are; some writers leave that open."""
        with open(self.path, "rb") as file:
            header = file.read(100)
        page, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
        page = 1 << 16 if page == 1 else page
        if len(header) < 100 or page * pages > size:
            self.broken = f"breaks off: it should have {page * pages} bytes, and has {size}"

    def _check_tables(self) -> None:
        """Plain tables with the columns that are read; a view or a virtual table could compute anything."""
        self.tables = {}
        for kind, name, text in self.base.execute("SELECT type, name, sql FROM sqlite_master"):
            if name in COLUMNS:
                if kind != "table" or not str(text).upper().startswith("CREATE TABLE"):
                    raise RciError(f"{self.path}: {name} is not a plain table.")
                self.tables[name] = {row[1] for row in self.base.execute(f"PRAGMA table_info({name})")}
                if "GENERATED" in text.upper() or not self.tables[name].issuperset(COLUMNS[name]):
                    raise RciError(
                        f"{self.path}: the table {name} must have columns {', '.join(COLUMNS[name])}."
                    )
        for name in ("topics", "messages"):
            if name not in self.tables:
                raise RciError(f"{self.path} is an SQLite file, but not a bag: it has no table {name!r}.")

    def _topics(self) -> dict[str, Topic]:
        definitions = {}
        if "message_definitions" in self.tables:
            names = ", ".join(COLUMNS["message_definitions"])
            definitions = {
                kind: (str(schema), str(text))
                for kind, schema, text in self.base.execute(f"SELECT {names} FROM message_definitions")
            }
        topics = {}
        for number, *texts in self.base.execute(f"SELECT {', '.join(COLUMNS['topics'])} FROM topics"):
            if not isinstance(number, int):
                raise RciError(f"{self.path} is damaged: a topic has {number!r:.40} as its number.")
            name, kind, encoding = map(str, texts)
            self.ids[number] = name
            topics[name] = Topic(name, kind, encoding, *definitions.get(kind, ("", "")))
        return topics

    def _times(self) -> tuple[int, int]:
        try:
            first, last = self.base.execute("SELECT MIN(timestamp), MAX(timestamp) FROM messages").fetchone()
        except (sqlite3.Error, UnicodeDecodeError):
            if not self.broken:
                raise
            return 0, (1 << 63) - 1
        if first is None:
            return 0, -1
        if not isinstance(first, int) or not isinstance(last, int):
            raise RciError(f"{self.path} is damaged: times of messages are not numbers.")
        return first, last

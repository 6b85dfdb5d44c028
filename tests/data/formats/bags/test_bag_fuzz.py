"""Whatever is in a bag, its reader gives episodes or one clear sentence, and soon."""

from __future__ import annotations

import random
import shutil
import struct
import time
from contextlib import nullcontext

import pytest
from bag_files import MAPPING, MODE, TOPICS, drive, file_of, write_bag

import rci
from rci.data.errors import RciError

KINDS = ("mcap", "mcap-zstd", "db3", "bag", "bag-lz4")
PATIENCE = 20.0  # seconds of this process for one file
VALUES = (
    b"\xff" * 8,
    b"\0" * 8,
    b"\xff" * 7 + b"\x7f",
    struct.pack("<Q", 1 << 40),
    b"\xff\xff\xff\x7f",
    b"uint8[] x\n",
)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """A short drive in every container."""
    root = tmp_path_factory.mktemp("valid")
    rows = [*drive(0.4, pressed=0.3), (50, "/mode", {"mode": 4})]
    rows.sort(key=lambda row: row[0])
    bags = {kind: file_of(write_bag(root / kind, rows, {**TOPICS, "/mode": MODE}, kind)) for kind in KINDS}
    return {kind: (path.suffix, path.read_bytes()) for kind, path in bags.items()}


def edited(content, chance):
    """The content with some bytes put, inserted, deleted or moved, or cut off."""
    content = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = (
            chance.randrange(len(content) + 1)
            if chance.random() < 0.6
            else chance.randrange(min(3000, len(content) + 1))
        )
        some = chance.choice(VALUES) if chance.random() < 0.5 else chance.randbytes(chance.randrange(1, 9))
        kind = chance.choice(("put", "put", "put", "insert", "delete", "truncate", "again"))
        if kind == "put":
            content[at : at + len(some)] = some
        elif kind == "insert":
            content[at:at] = some
        elif kind == "delete":
            del content[at : at + 4 * len(some)]
        elif kind == "truncate":
            del content[at:]
        else:
            content[at:at] = content[max(0, at - chance.randrange(2000)) : at]
        if not content:
            break
    return bytes(content)


def refused_or_read(path, out, mapping, partial, to_disk):
    """Whether it is refused, in one sentence and with nothing left behind."""
    shutil.rmtree(out, ignore_errors=True)
    began, said = time.process_time(), ""
    try:
        if not to_disk:
            assert len(rci.import_bags(path, mapping, partial=partial).episodes) >= 1
            return False
        done = rci.convert_dataset(path, out, "bags", mapping=mapping, partial=partial)
        assert (done.lengths >= 1).all()
        rci.load(out)
    except RciError as error:
        said = str(error)
    finally:
        assert time.process_time() - began < PATIENCE
    assert "\n" not in said
    left = {entry.name for entry in out.parent.iterdir()} - {path.name}
    assert left == ({out.name} if to_disk and not said else set())
    return bool(said)


def fuzz(kind, valid, tmp_path, count, seed):
    suffix, content = valid[kind]
    chance = random.Random(f"{kind} {seed}")
    mapping = {**MAPPING, "takeover": {"field": "/mode.mode", "is": [4, 5]}}
    path, out = tmp_path / f"a{suffix}", tmp_path / "out"
    refused = 0
    for number in range(count):
        path.write_bytes(edited(content, chance))
        told = {**mapping, "clock": "header"} if number % 7 == 0 else mapping
        refused += refused_or_read(path, out, told, partial=number % 2 == 0, to_disk=number % 10 < 3)
    assert 0 < refused <= count


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bags(valid, tmp_path, kind):
    fuzz(kind, valid, tmp_path, 15, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_damaged_bags(valid, tmp_path, kind):
    fuzz(kind, valid, tmp_path, 10_000, 1)


LINES = (
    "string s", "float64[3] p", "pkg/Part[] parts", "test_msgs/Odd odd", "uint8[<=4] y", "X", "int8 A=3", "=" * 80,
    "MSG: pkg/Part", "# ", "\t", "wstring w", "a/b/c/D e", "string<=3 t", "uint8[9999999999] z", "Header header",
    "float128 q",
)  # fmt: skip


def test_definitions_of_anything():
    from rci.formats.bags.container import Topic
    from rci.formats.bags.decoding import Decoder
    from rci.formats.bags.definitions import types_of

    chance = random.Random(0)
    read, said = 0, []
    for _ in range(150):
        lines = ["uint8 x", *chance.choices(LINES, k=chance.randrange(5))]
        text = "\n".join(chance.sample(lines, len(lines))) + "\n"
        try:
            types = types_of(Topic("/t", "test_msgs/msg/Odd", "cdr", "ros2msg", text), "a.mcap")
            Decoder(types, "test_msgs/msg/Odd", {("x",): 0}, "cdr", "a.mcap: a message")(
                b"\0\1\0\0" + chance.randbytes(40)
            )
            read += 1
        except RciError as error:
            said.append(str(error))
    assert not any("\n" in text for text in said)
    assert read > 5


IDL = "module test_msgs {{ module msg {{ {} struct Odd {{ {} uint8 x; }}; }}; }};\n"
NOTE = '@verbatim (language="comment", text="(a (b (c)))")'


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            IDL.format("module Odd_Constants { const long A = 1; };", f"{NOTE} sequence<string<3>, 4> y;"),
            True,
        ),
        (IDL.format(f"module Odd_Constants {{ const long A = {'(' * 9}1{')' * 9}; }};", ""), False),
        (IDL.format("module Odd_Constants { const long A = 1 << 99999999999; };", ""), False),
        (IDL.format("", f"{'sequence<' * 30}uint8{'>' * 30} y;"), False),
        (IDL.format("", f"@x(value={'(' * 9}1{')' * 9}) uint8 y;"), False),
        ('"' * 99_999 + "/*" * 99_999 + "@a(" * 99_999, False),
    ],
)
def test_definitions_that_a_parser_would_never_finish(text, read):
    from rci.formats.bags.container import Topic
    from rci.formats.bags.definitions import types_of

    began = time.process_time()
    with nullcontext() if read else pytest.raises(RciError, match="cannot be read: "):
        types = types_of(Topic("/t", "test_msgs/msg/Odd", "cdr", "ros2idl", text), "a.mcap")
        assert types["test_msgs/msg/Odd"][-1][0] == "x"
    assert time.process_time() - began < 3.0


def test_stamps_that_are_none():
    """Whoever defines a header anew may call anything a time."""
    from rci.formats.bags.container import Message, Topic
    from rci.formats.bags.mapping import read_bag_mapping
    from rci.formats.bags.timeline import Timeline

    class Bag:
        start, end = 0, 1
        definition = "std_msgs/Header header\nuint8 x\n" + "".join(
            f"{'=' * 80}\nMSG: {name}\n{fields}\n"
            for name, fields in (("std_msgs/Header", "pkg/T stamp"), ("pkg/T", "string sec\nint32 nanosec"))
        )
        topics = {"/t": Topic("/t", "test_msgs/msg/Odd", "cdr", "ros2msg", definition)}  # noqa: RUF012

        def messages(self, names, since):
            yield Message(0, 0, "/t", b"\0\1\0\0" + struct.pack("<I4siB", 4, b"abc\0", 1, 1))

    mapping = read_bag_mapping({"obs": ["/t.x"], "action": ["/t.x"], "rate": 10})
    with pytest.raises(RciError, match=r"the stamps of /t are not two whole numbers"):
        list(Timeline(Bag(), mapping, "a.mcap", {}).samples())


def test_types_that_would_grow_without_end():
    from rci.formats.bags.container import Topic
    from rci.formats.bags.decoding import Decoder
    from rci.formats.bags.definitions import types_of

    parts = [f"{'=' * 80}\nMSG: pkg/T{i}\nT{i + 1}[64] a\nT{i + 1}[64] b\n" for i in range(1, 9)]
    text = "T1 a\nuint8 x\n" + "".join(parts) + f"{'=' * 80}\nMSG: pkg/T9\nuint8 y\n"
    types = types_of(Topic("/t", "pkg/msg/T0", "cdr", "ros2msg", text), "a.mcap")
    with pytest.raises(RciError, match="is made of more than 65536 fields"):
        Decoder(types, "pkg/msg/T0", {("x",): 0}, "cdr", "a.mcap: a message")
    circle = f"pkg/T1 a\n{'=' * 80}\nMSG: pkg/T1\npkg/T0 b\n"
    with pytest.raises(RciError, match="is a part of itself"):
        types_of(Topic("/t", "pkg/msg/T0", "cdr", "ros2msg", circle), "a.mcap")

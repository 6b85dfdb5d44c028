"""Whatever is in a LeRobot folder, reading it gives episodes or one sentence, soon, and never half of an artefact."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from test_lerobot_read import SAMPLES, VERSIONS

import rci
from rci.data.errors import RciError

SECONDS = 20  # of a core, for one folder
VALUES = [
    None, True, -1, 0, 3, 1 << 40, 10**400, 0.5, float("nan"), float("inf"), "", "x", "../x", "/etc/passwd", "{}",
    [], [None], [-1], [1 << 40], ["a", "a"], {}, {"a": None}, "v3.0", "v2.1",
]  # fmt: skip
BLOCKS = [b"\0" * 8, b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"{", b'"', b"\n"]


def mutated(rng, content):
    """Bytes put over others, put in, taken out, or cut off."""
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(content) + 1), rng.randrange(4)
        some = rng.choice([*BLOCKS, rng.randbytes(rng.randint(1, 8))])
        rest = {0: at + len(some), 1: at, 2: at + rng.randint(1, 40), 3: len(content)}[kind]
        content = content[:at] + (some if kind < 2 else b"") + content[rest:]
    return content


def changed(rng, table):
    """JSON with one of its values another one, or gone."""
    inner = [value for value in table.values() if isinstance(value, dict)] if isinstance(table, dict) else []
    if inner and rng.random() < 0.7:
        changed(rng, rng.choice(inner))
    elif isinstance(table, dict) and table:
        key = rng.choice(list(table))
        if rng.random() < 0.2:
            del table[key]
        else:
            table[key] = rng.choice(VALUES)
    return table


def damage(rng, folder):
    """Do something to one file; what it was."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".mp4"]
    path = rng.choice(files)
    kind = rng.random()
    if kind < 0.05:
        path.unlink()
    elif kind < 0.1:
        shutil.copyfile(rng.choice(files), path.with_suffix(".copy"))
        os.replace(path.with_suffix(".copy"), path)
    elif kind < 0.5 and path.suffix in (".json", ".jsonl"):
        content = path.read_text(errors="replace")
        lines = [content] if path.suffix == ".json" else content.splitlines()
        try:
            path.write_text("\n".join(json.dumps(changed(rng, json.loads(line))) for line in lines))
        except ValueError:  # damaged before
            path.write_text("")
    else:
        path.write_bytes(mutated(rng, path.read_bytes()))
    return path


def try_folders(count, seed, tmp_path):
    """How many of so many damaged folders were refused."""

    def hang(*_):
        raise AssertionError("it hangs")

    rng, refused = random.Random(seed), 0
    before = signal.signal(signal.SIGPROF, hang)
    try:
        for number in range(count):
            folder = Path(shutil.copytree(SAMPLES / rng.choice(VERSIONS), tmp_path / "folder"))
            state = rng.getstate()
            for _ in range(rng.randint(1, 2)):
                if any(path.is_file() for path in folder.rglob("*")):
                    damage(rng, folder)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                rci.convert_dataset(folder, tmp_path / "out", "lerobot")
                rci.load(tmp_path / "out")
                shutil.rmtree(tmp_path / "out")
                told = ""
            except RciError as error:
                told = str(error)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            refused += bool(told)
            assert "\n" not in told, (number, state)
            shutil.rmtree(folder)
            assert list(tmp_path.iterdir()) == [], number
    finally:
        signal.signal(signal.SIGPROF, before)
    return refused


def test_damaged_folders(tmp_path):
    assert 60 < try_folders(120, 1, tmp_path) < 120


@pytest.mark.slow
def test_ten_thousand_damaged_folders(tmp_path):
    assert 5000 < try_folders(10_000, 2, tmp_path) < 10_000

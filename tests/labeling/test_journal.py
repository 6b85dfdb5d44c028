"""Nothing that was acknowledged is lost, whatever happens to the writer."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rci.data.errors import RciError
from rci.labeling.people.sessions.journal import Journal, read_journal

WRITER = """
import sys
from pathlib import Path
from rci.labeling.people.sessions.journal import Journal
journal = Journal(Path(sys.argv[1]))
number = len(journal.entries)
while True:
    journal.append({"number": number})
    print(number, flush=True)
    number += 1
"""


def test_what_is_appended_is_read_back(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append({"a": 1})
    journal.append({"b": "é"}, {"c": None})
    assert read_journal(path) == [{"a": 1}, {"b": "é"}, {"c": None}]
    journal.close()
    assert Journal(path).entries == read_journal(path)


def test_a_journal_that_is_not_there_is_empty(tmp_path):
    assert read_journal(tmp_path / "none") == []


def test_a_second_writer_is_refused_and_the_next_one_is_not(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    with pytest.raises(RciError, match="in use"):
        Journal(path)
    journal.close()
    Journal(path).close()


@given(cut=st.integers(1, 40))
def test_an_unfinished_line_is_cut_off(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = Journal(path)
    journal.append({"number": 1})
    whole = path.stat().st_size
    journal.append({"number": 2, "text": "as long as any other line"})
    journal.close()
    os.truncate(path, path.stat().st_size - cut)
    assert read_journal(path) == [{"number": 1}]
    journal = Journal(path)
    assert path.stat().st_size == whole
    journal.append({"number": 3})
    journal.close()
    assert read_journal(path) == [{"number": 1}, {"number": 3}]


@pytest.mark.parametrize(
    "change",
    [lambda b: b.replace(b'"number": 1', b'"number": 7'), lambda b: b"nonsense\n" + b, lambda b: b"[]\n" + b],
)
def test_damage_is_reported_with_its_line(tmp_path, change):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append({"number": 1}, {"number": 2})
    journal.close()
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(RciError, match=r"line 1 is damaged"):
        read_journal(path)
    with pytest.raises(RciError, match=r"line 1 is damaged"):
        Journal(path)


def test_a_killed_writer_loses_nothing_it_had_acknowledged(tmp_path):
    path = tmp_path / "journal.jsonl"
    acknowledged = -1
    for pause in (0.02, 0.05, 0.09):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        first = int(writer.stdout.readline())
        assert first > acknowledged
        time.sleep(pause)
        writer.send_signal(signal.SIGKILL)
        told = [first, *map(int, writer.communicate()[0].split())]
        acknowledged = told[-1]
        numbers = [entry["number"] for entry in read_journal(path)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= acknowledged + 1


FULL = """
import resource, signal, sys
from pathlib import Path
from rci.data.errors import RciError
from rci.labeling.people.sessions.journal import Journal, read_journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
journal = Journal(path)
journal.append({"number": 0})
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, resource.RLIM_INFINITY))
try:
    journal.append({"number": 1})
except RciError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append({"number": 2})
print(read_journal(path))
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limits on files here")
def test_without_room_nothing_is_half_written_and_work_goes_on_when_there_is_some(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "journal.jsonl")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "was not saved" in done.stdout
    assert "[{'number': 0}, {'number': 2}]" in done.stdout

"""What a worker has to say of one piece of work: how it ended, and what it printed meanwhile."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rci.data.errors import RciError
from rci.engines.engine import Progress, Work

TAIL = 20_000  # bytes of what was printed that are kept: the end of it says why


class Failure(NamedTuple):
    """Why work failed, in one sentence, and all that is known of it."""

    error: str
    log: str
    foreseen: bool = False  # an RciError: neither a bug nor a lost worker


def attempt(work: Work, progress: Progress, printed: Path) -> Failure | None:
    """Do the work; None if it is done. What it prints goes to the file, not to the user's terminal."""
    try:
        with printing_to(printed):
            work.run(progress)
    except RciError as error:
        return Failure(str(error), f"{traceback.format_exc()}\n{tail(printed)}", foreseen=True)
    except Exception as error:
        reason = traceback.format_exception_only(error)[-1].strip()
        return Failure(f"it failed with {reason}", f"{traceback.format_exc()}\n{tail(printed)}")
    return None


def tail(printed: Path) -> str:
    """The end of what was printed."""
    try:
        with open(printed, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


@contextlib.contextmanager
def printing_to(path: Path) -> Iterator[None]:
    """Send everything that this process prints, native code included, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for descriptor in (*kept, target):
            os.close(descriptor)

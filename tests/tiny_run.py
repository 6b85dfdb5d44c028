"""`rci run point` with the smallest settings, in a process of its own; made once for all test files that read it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

# A shell that starts the tests in the background makes them, and all they start, deaf to Ctrl-C; so listen again.
HEAR_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
RCI = [sys.executable, "-c", f"{HEAR_CTRL_C}\nfrom rci.cli.main import main; main()"]
TINY = [
    "collect.episodes=80", "behaviour.updates=20", "behaviour.hidden=8", "redistribute.epochs=2", "learn.updates=20",
    "learn.method=bcq-lagrangian", "learn.hidden=8", "learn.batch_size=16",
    "compare.budgets=[0.1,'P30']", "compare.seeds=2", "evaluate.episodes=20",
    "evaluate.rollouts=3", "compare.methods=['reward-only','rci']",
]  # fmt: skip
FLAGS = [part for flag in TINY for part in ("--set", flag)]


def start(out: Path, *more: str) -> subprocess.Popen:
    command = [*RCI, "run", "point", "--out", str(out), *FLAGS, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(out: Path, *more: str) -> tuple[str, str]:
    """What the command prints, once it has gone through."""
    process = start(out, *more)
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    return stdout, stderr


def made_once(place: Path) -> tuple[Path, str]:
    """The folder of the finished run and what it printed. Processes that test side by side wait for the first."""
    place.mkdir(parents=True, exist_ok=True)
    printed = place / "printed.txt"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            printed.write_text(finish(place / "run")[0])
    return place / "run", printed.read_text()

"""`rci bench faults`: kill real runs at random moments, begin them again, and see whether anything was lost.

A small pipeline, or a small sweep, is run undisturbed; that is the reference. Then the same command is begun again
and again in folders of its own, and killed (SIGKILL) at moments drawn uniformly over the length of a run, until it
completes. Every file of every artefact must then be that of the reference, no artefact that was finished may have
been made a second time, and no temporary file may be left.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.pipeline.companions import oracle_of

Row = dict[str, Any]
COMMAND = "from rci.cli.main import main; main()"
TINY: dict[str, Any] = {
    "collect.episodes": 30, "learn.method": "bc", "learn.updates": 10, "learn.hidden": 8, "learn.batch_size": 16,
    "compare.budgets": ["inf"], "compare.methods": ["sparse", "uniform"], "compare.seeds": 1,
    "evaluate.episodes": 5, "evaluate.rollouts": 2,
}  # fmt: skip
GRID = {"learn.updates": [10, 12], "seed": [0, 1]}
WHAT = ("pipeline", "sweep")
EVERYBODY, DRIVER, WORKER = "driver and workers", "driver", "one worker"
VICTIMS = (EVERYBODY, DRIVER, WORKER)
NOTES = ("results.json", "sweep.json", "sweep.csv")  # numbers beside the artefacts that must be the same too

State = dict[Path, tuple[int, int]]  # of every finished artefact: which file its manifest is, and since when


class Run(NamedTuple):
    """A command that can be begun in any folder, and what it uses and says."""

    words: tuple[str, ...]
    cache: Path  # of compiled code, shared by all runs
    program: str = COMMAND  # Python

    def begin(self, out: Path) -> subprocess.Popen[bytes]:
        """Start it in a process group of its own. What it says goes to a file: nobody waits for a pipe."""
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(log_of(out), "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-c", self.program, *self.words, "--out", str(out)],
                stdout=log,
                stderr=log,
                env={**os.environ, "RCI_CACHE": str(self.cache)},
                start_new_session=True,
            )


class Outcome(NamedTuple):
    """What came of the kills in one folder."""

    killed: tuple[str, ...]  # the victims
    recovered: bool
    lost: int  # files of artefacts that vanished, or are not those of the reference
    recomputed: int  # artefacts that were finished, and made again
    left: int  # temporary files


def bench_faults(kills: int, what: Sequence[str] = WHAT, seed: int = 0) -> Iterator[Row]:
    """Rows of `rci bench faults`: one for each command and kind of victim. kills: of each command."""
    for name in what:
        if name not in WHAT:
            raise unknown_name("command to kill", name, WHAT)
    if not Path("/proc/self/task").is_dir():
        raise RciError("workers are found in /proc, so runs can be killed on Linux only.")
    with tempfile.TemporaryDirectory(prefix="rci-faults-", ignore_cleanup_errors=True) as folder:
        for name in what:
            place = Path(folder) / name
            place.mkdir()
            run = Run(small_command(name, place), Path(folder) / "cache")
            began = time.monotonic()
            outcomes = list(kill_and_resume(run, place, kills, np.random.default_rng(seed)))
            yield from rows_of(name, outcomes, time.monotonic() - began)


def small_command(what: str, place: Path) -> tuple[str, ...]:
    """The words of a small command. What a sweep needs is written to a file in the folder `place`."""
    if what == "pipeline":
        flags = [word for key, value in TINY.items() for word in ("--set", f"{key}={_toml(value)}")]
        return ("run", "point", *flags)
    path = place / "grid.toml"
    tables = {"settings": {key: value for key, value in TINY.items() if key not in GRID}, "grid": GRID}
    lines = ['task = "point"']
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{_key(table, key)} = {_toml(value)}" for key, value in values.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ("sweep", str(path))


def _key(table: str, name: str) -> str:
    return f'"{name}"' if table == "grid" else name


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(_toml(item) for item in value)}]"
    return f"'{value}'" if isinstance(value, str) else str(value)


def kill_and_resume(run: Run, place: Path, kills: int, rng: np.random.Generator) -> Iterator[Outcome]:
    """The outcomes of as many kills as asked for, folder by folder."""
    undisturbed(run, place / "first")  # which compiles
    length = undisturbed(run, place / "reference")
    expected = content_of(place / "reference")
    if content_of(place / "first") != expected:
        raise RciError("two undisturbed runs differ, so nothing can be said of disturbed ones.")
    hit = 0
    while hit < kills:
        out = place / f"killed-{hit}"
        outcome = disturbed(run, out, expected, length, kills - hit, rng)
        hit += len(outcome.killed)
        yield outcome


def undisturbed(run: Run, out: Path) -> float:
    """Run the command to its end; the seconds that took."""
    began = time.monotonic()
    code = run.begin(out).wait()
    if code != 0:
        raise RciError(f"the undisturbed run failed with exit code {code}: {_said(out)}")
    return time.monotonic() - began


def disturbed(
    run: Run, out: Path, expected: dict[str, str], length: float, kills: int, rng: np.random.Generator
) -> Outcome:
    """Begin the command in a fresh folder, killed at most `kills` times, until it completes or fails."""
    killed: list[str] = []
    before: State = {}
    gone, again = set[Path](), 0
    while True:
        process = run.begin(out)
        victim = VICTIMS[rng.integers(len(VICTIMS))]
        moment = rng.uniform(0.0, length)
        struck = strike(process, victim, moment) if len(killed) < kills else None
        code = process.wait()
        if struck is not None:
            killed.append(struck)
        now = state_of(out)
        gone |= before.keys() - now.keys()
        again += sum(now[path] != before[path] for path in before.keys() & now.keys())
        before = now
        if code != -signal.SIGKILL:
            break
    found = content_of(out)
    gone |= {out / path for path in expected if found.get(path) != expected[path]}
    left = len(list(out.rglob(".*")))
    return Outcome(tuple(killed), code == 0 and found == expected, len(gone), again, left)


def strike(process: subprocess.Popen[bytes], victim: str, seconds: float) -> str | None:
    """Wait, then kill: who was hit, None if the run had ended. Before the first worker starts, everybody is hit."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return None
    workers = workers_of(process.pid)
    if victim == WORKER and workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(workers[-1], signal.SIGKILL)
        return WORKER
    if victim == DRIVER:
        process.kill()
        return DRIVER
    os.killpg(process.pid, signal.SIGKILL)
    return EVERYBODY


def workers_of(driver: int) -> list[int]:
    """The processes that work for a driver."""
    try:
        children = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(child) for child in children if "spawn_main" in _command_line(child)]


def _command_line(process: str) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def state_of(out: Path) -> State:
    """Which artefacts are finished. One that is made again has another manifest, though it says the same.

    The truth about episodes is written before them, by the same job: alone it is not finished.
    """
    state: State = {}
    found = _manifests(out)
    episodes = {oracle_of(manifest.parent) for manifest in found}
    for manifest in found:
        if manifest.parent.name.endswith("-oracle") and manifest.parent.resolve() not in episodes:
            continue
        with contextlib.suppress(FileNotFoundError):  # a worker that outlives its driver may still be at it
            status = manifest.stat()
            state[manifest] = status.st_ino, status.st_mtime_ns
    return state


def content_of(out: Path) -> dict[str, str]:
    """The digest of every file of every artefact, and of the numbers beside them."""
    files = [file for manifest in _manifests(out) for file in manifest.parent.iterdir()]
    files += [out / name for name in NOTES if (out / name).is_file()]
    return {str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _manifests(out: Path) -> list[Path]:
    """Of artefacts that stand under their names; those in hidden folders are not finished."""
    found = out.rglob("manifest.json")
    return sorted(path for path in found if not any(part[0] == "." for part in path.relative_to(out).parts))


def rows_of(name: str, outcomes: Sequence[Outcome], seconds: float) -> list[Row]:
    """One row per kind of victim. What was lost, recomputed or left behind counts for all kills of its folder."""
    rows = []
    for victim in VICTIMS:
        own = [(outcome, outcome.killed.count(victim)) for outcome in outcomes if victim in outcome.killed]
        config = {
            "killed": victim,
            "kills": sum(count for _, count in own),
            "lost": sum(outcome.lost for outcome, _ in own),
            "recomputed": sum(outcome.recomputed for outcome, _ in own),
            "left behind": sum(outcome.left for outcome, _ in own),
            "seconds": round(seconds),
        }
        recovered = sum(count for outcome, count in own if outcome.recovered)
        rows.append({"name": name, "config": config, "value": recovered, "unit": "recovered"})
    return rows


def failures(rows: Sequence[Row]) -> list[str]:
    """The sentences about what a row shows that should not be."""
    return [
        f"{row['name']}, {row['config']['killed']}: {row['value']} of {row['config']['kills']} kills recovered, "
        f"{row['config']['lost']} files lost, {row['config']['recomputed']} artefacts made again, "
        f"{row['config']['left behind']} temporary files left."
        for row in rows
        if row["value"] != row["config"]["kills"]
        or any(row["config"][name] for name in ("lost", "recomputed", "left behind"))
    ]


def log_of(out: Path) -> Path:
    """Where a run that was begun here says what it does: beside its folder."""
    return out.with_name(f"{out.name}.log")


def _said(out: Path) -> str:
    return log_of(out).read_text(encoding="utf-8", errors="replace")[-2000:]

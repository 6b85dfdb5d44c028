"""What a run, a training or a sweep logs to a tracker of experiments: curves, results, figures, addresses."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rci.data.store import read, read_manifest
from rci.engines.engine import Named, Report
from rci.pipeline.jobs import Job
from rci.reporting.trackers.tracker import UNTRACKED, Tracker

TRAINED, TESTED = ("learn",), ("evaluate",)
STEP = "update"  # the name under which a history counts


@contextlib.contextmanager
def experiment(tracker: Tracker, name: str, config: Mapping[str, Any], group: str = "") -> Iterator[None]:
    """One experiment of a tracker, which ends as the work inside does."""
    tracker.begin(name, config, group)
    try:
        yield
    except BaseException:
        tracker.end(failed=True)
        raise
    tracker.end()


def logging_jobs(tracker: Tracker, jobs: Sequence[Job], report: Report) -> Report:
    """The same report, which logs the output of a job as soon as it is done."""
    if tracker is UNTRACKED:
        return report
    by_name = {job.name: job for job in jobs}

    def note(task: Named, share: float, seconds: float | None) -> None:
        report(task, share, seconds)
        if share == 1.0 and task.name in by_name:
            log_job(tracker, by_name[task.name])

    return note


def log_job(tracker: Tracker, job: Job) -> None:
    """Log what a job made: its address, the curves of a training, the results of a test."""
    manifest = read_manifest(job.output)
    tracker.artefact(job.name, str(job.output.absolute()), manifest["hash"])
    if job.stage in TRAINED:
        log_policy(tracker, job.output.name, manifest["meta"]["info"])
    if job.stage in TESTED:
        scores = read(job.output, "scores", verify=False)
        numbers = {
            "violation_rate": scores.violation_rate,
            "mean_return": scores.mean_return,
            "mean_return_until_stop": scores.mean_return_until_stop,
            **_by_channel("violation_rate", scores.info.get("channel_violation_rate", {})),
        }
        tracker.curves(f"test/{job.output.name}", 0, numbers)


def log_policy(tracker: Tracker, name: str, info: Mapping[str, Any]) -> None:
    """The curves of a training, and what is expected of the policy at its end."""
    for means in info.get("history", ()):
        numbers = {key: value for key, value in means.items() if key != STEP and math.isfinite(value)}
        tracker.curves(name, int(means[STEP]), numbers)
    expected = dict[str, float]()
    for key in ("predicted_return", "predicted_cost", "expected_violation", "violation_bound"):
        value = info.get(key)
        expected |= (
            _by_channel(key, value) if isinstance(value, dict) else {} if value is None else {key: value}
        )
    if expected:
        tracker.curves(f"expected/{name}", int(info.get("updates", 0)), expected)


def log_figures(tracker: Tracker, report: Path) -> None:
    """The pictures of a page."""
    for file in sorted((report / "figures").glob("*.png")):
        tracker.figure(file.stem, file.read_bytes())


class SweepLog:
    """An experiment for every point of a sweep, logged when its last job is done."""

    def __init__(
        self, tracker: Tracker, group: str, points: Sequence[tuple[str, Mapping[str, Any], Collection[Job]]]
    ) -> None:
        self.tracker, self.group, self.points = tracker, group, points
        self.waiting = [{job.name for job in jobs} for _, _, jobs in points]
        self.askers = defaultdict[str, list[int]](list)
        for number, names in enumerate(self.waiting if tracker is not UNTRACKED else ()):
            for name in names:
                self.askers[name].append(number)

    def done(self, name: str) -> None:
        """A job is done; points that waited for it alone are logged."""
        for number in self.askers.get(name, ()):
            self.waiting[number].discard(name)
            if not self.waiting[number]:
                point, config, jobs = self.points[number]
                with experiment(self.tracker, point, config, self.group):
                    for job in jobs:
                        log_job(self.tracker, job)

    def close(self, page: Path | None) -> None:
        """The points that failed, and the pictures of all together."""
        for (point, config, _), waiting in zip(self.points, self.waiting):
            if waiting:
                self.tracker.begin(point, config, self.group)
                self.tracker.end(failed=True)
        if page is not None:
            with experiment(self.tracker, "all points", {}, self.group):
                log_figures(self.tracker, page.parent)


def _by_channel(name: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}.{channel}": value for channel, value in values.items()}

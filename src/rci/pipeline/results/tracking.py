"""What a run, a training or a sweep logs to a tracker of experiments: curves, results, figures, addresses."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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


def logging_jobs(tracker: Tracker, jobs: Sequence[Job], out: Path, report: Report) -> Report:
    """The same report, which logs the output of a job in the folder `out` as soon as it is done."""
    if tracker is UNTRACKED:
        return report
    by_name = {job.name: job for job in jobs}

    def note(task: Named, share: float, seconds: float | None) -> None:
        report(task, share, seconds)
        if share == 1.0 and task.name in by_name:
            job = by_name[task.name]
            log_job(tracker, job, job.output.relative_to(out))

    return note


def log_job(tracker: Tracker, job: Job, place: Path) -> None:
    """Log what a job made: its address, the curves of a training, the results of a test.

    place: what to call it, such as policies/sparse-0.05-seed0.
    """
    manifest = read_manifest(job.output)
    tracker.artefact(place.as_posix(), str(job.output.absolute()), manifest["hash"])
    if job.stage in TRAINED:
        log_curves(tracker, place.name, manifest["meta"]["info"])
    if manifest["kind"] == "policy":
        log_expected(tracker, place.name, manifest["meta"]["info"])
    if job.stage in TESTED:
        scores = read(job.output, "scores", verify=False)
        numbers = {
            "violation_rate": scores.violation_rate,
            "mean_return": scores.mean_return,
            "mean_return_until_stop": scores.mean_return_until_stop,
            **_by_channel("violation_rate", scores.info.get("channel_violation_rate", {})),
        }
        tracker.curves(f"test/{place.name}", 0, numbers)


def log_curves(tracker: Tracker, name: str, info: Mapping[str, Any]) -> None:
    """The curves of a training."""
    for means in info.get("history", ()):
        numbers = {key: value for key, value in means.items() if key != STEP and math.isfinite(value)}
        tracker.curves(name, int(means[STEP]), numbers)


def log_expected(tracker: Tracker, name: str, info: Mapping[str, Any]) -> None:
    """What is expected of a policy."""
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
    """An experiment for every point of a sweep, logged when its last job is done.

    Each point is a name, settings and jobs, by where a single run would write what they make: so that curves of
    different points have the same names.
    """

    def __init__(
        self,
        tracker: Tracker,
        group: str,
        points: Sequence[tuple[str, Mapping[str, Any], Mapping[Path, Job]]],
    ) -> None:
        self.tracker, self.group, self.points = tracker, group, points
        self.waiting = [{job.name for job in jobs.values()} for _, _, jobs in points]
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
                    for place, job in jobs.items():
                        log_job(self.tracker, job, place)

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

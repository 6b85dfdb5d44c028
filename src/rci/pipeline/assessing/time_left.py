"""How much of an assessment is left, from how long jobs of a kind take beside each other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from rci.engines.engine import Named, Report
from rci.pipeline.jobs import Job

OnProgress = Callable[[int, int, float], None]  # jobs done, jobs in all, seconds left (inf = not known)
WEIGHTS = {"behaviour": 1.0, "redistribute": 0.5, "learn": 5.0, "estimate": 5.0}  # of stages that train
OTHERS = 0.05
ENOUGH = 0.02  # of the work is done in this run before a time is shown


class TimeLeft:
    """A report that passes on what it hears, and shows how much is left after each job that trains something."""

    def __init__(self, jobs: Sequence[Job], report: Report, on_progress: OnProgress) -> None:
        self.report, self.on_progress = report, on_progress
        self.weight = {job.name: OTHERS if _cheap(job) else WEIGHTS[job.stage] for job in jobs}
        self.share = dict.fromkeys(self.weight, 0.0)
        self.unchanged = 0.0  # work that an earlier run did
        self.began = time.monotonic()

    def __call__(self, task: Named, share: float, seconds: float | None) -> None:
        self.report(task, share, seconds)
        if task.name not in self.share:
            return
        self.share[task.name] = share
        if share == 1.0:
            if seconds is None:
                self.unchanged += self.weight[task.name]
            done = sum(one == 1.0 for one in self.share.values())
            if self.weight[task.name] == OTHERS:
                return
            self.on_progress(done, len(self.share), self.seconds_left())

    def seconds_left(self) -> float:
        """At the pace of this run so far; infinite while that is not known."""
        total = sum(self.weight.values())
        done = sum(self.weight[name] * share for name, share in self.share.items())
        fresh = done - self.unchanged
        if fresh < ENOUGH * total:
            return math.inf
        return (total - done) * (time.monotonic() - self.began) / fresh


def _cheap(job: Job) -> bool:
    """Whether a job is over in a moment: those that train nothing, and the costs that are labels."""
    return job.stage not in WEIGHTS or job.settings.get("method") == "sparse"

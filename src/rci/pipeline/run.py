"""`rci run`: the whole pipeline, from recorded episodes to the report."""

from __future__ import annotations

from pathlib import Path

from rci.engines.engine import Engine, Report, reporting
from rci.pipeline.config import RunConfig
from rci.pipeline.folder import alone_in, prepare_folder, read_timings, run_timed, write_json
from rci.pipeline.plan import check_config, plan
from rci.pipeline.results.summary import write_summary
from rci.pipeline.results.tracking import experiment, log_figures, logging_jobs
from rci.reporting.trackers.tracker import UNTRACKED, Tracker


def run_pipeline(
    config: RunConfig,
    out: Path,
    engine: Engine,
    report: Report,
    command: str = "",
    tracker: Tracker = UNTRACKED,
) -> Path:
    """Run what is not yet done and write the report; the path of its page."""
    check_config(config)
    prepare_folder(out)
    with alone_in(out), experiment(tracker, out.name, config.as_table()):
        page = _run_alone(config, out, engine, report, command, tracker)
        log_figures(tracker, page.parent)
        return page


def _run_alone(
    config: RunConfig, out: Path, engine: Engine, report: Report, command: str, tracker: Tracker
) -> Path:
    write_json(out / "config.json", {"command": command, "settings": config.as_table()})
    jobs = plan(config, out)
    names = {job.name for job in jobs}
    timings = {name: seconds for name, seconds in read_timings(out).items() if name in names}
    run_timed(jobs, out, engine, logging_jobs(tracker, jobs, out, report), timings)
    # The report is cheap, so it is written anew each time and is not kept as an artefact.
    with reporting(report, "report"):
        return write_summary(config, out, command)

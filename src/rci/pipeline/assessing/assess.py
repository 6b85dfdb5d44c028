"""`rci assess`: from logs to a decision: may a policy be deployed, how safe will it be, and how sure is that?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rci.data import store
from rci.data.artefacts.policy_estimates import Estimates
from rci.data.errors import RciError
from rci.data.risk.estimates import DEPLOY, Verdict, chance_of
from rci.data.types import Episodes, Labels
from rci.engines.engine import LOCAL, Engine, Report, reporting
from rci.engines.run import ThisProcess, run_tasks
from rci.pipeline.assessing.choice import choose_policy
from rci.pipeline.assessing.logs import Logs, logs_of
from rci.pipeline.assessing.parts import check_logs, runs_of
from rci.pipeline.assessing.plan import PARTS, folder_of, part_of, plan, policy_names, promised_rate
from rci.pipeline.assessing.settings import AssessConfig, assess_config
from rci.pipeline.assessing.time_left import OnProgress, TimeLeft
from rci.pipeline.folder import alone_in, prepare_folder, read_timings, run_timed, write_json


class Assessment(NamedTuple):
    """What came of an assessment: the verdict, the policy that it is about, and where everything is."""

    verdict: Verdict
    budget: float
    policy: Path
    monitor: Path
    page: Path
    table: dict[str, Any]  # the content of assessment.json

    @property
    def deploy(self) -> bool:
        """Whether the policy may be deployed under the monitor."""
        return self.verdict.word == DEPLOY

    def sentences(self) -> list[str]:
        """The verdict, why, and what would change it; a sentence each."""
        word, *rest = self.verdict
        why, remedies = ("; ".join(part) for part in rest)
        lines = [f"{word.capitalize()}.", f"{why[:1].upper()}{why[1:]}."]
        return [*lines, *([f"What would change it: {remedies}."] if remedies else [])]

    def __repr__(self) -> str:
        return f"Assessment({' '.join(self.sentences())} {self.page})"


def assess(
    logs: str | Path,
    mapping: Mapping[str, Any] | str | Path | None = None,
    budget: float | str = 0.05,
    out: str | Path = "runs/assessment",
    labels: str | Path | None = None,
    seed: int | None = None,
    workers: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Assessment:
    """From logs to a verdict: whether a policy may be deployed where a share `budget` of the runs may be stopped.

    logs: a file or a folder of logs, or an artefact of episodes. mapping: names of columns, as in `import_logs`. out:
    a folder for everything that is made; the same call goes on where it was interrupted. labels: of an artefact, if
    they are not beside it. settings: as with `--set`, {"learn.updates": 3000}.
    """
    flags = [f"{name}={json.dumps(value)}" for name, value in (settings or {}).items()]
    options = {"--budget": str(budget), "--out": str(out)}
    command = shlex.join(["rci", "assess", str(logs), *(part for pair in options.items() for part in pair)])
    return run_assessment(
        assess_config(flags, seed),
        logs,
        mapping,
        budget,
        Path(out),
        labels,
        Engine("local", workers),
        lambda task, share, seconds: None,
        lambda done, total, seconds_left: None,
        command,
    )


def run_assessment(
    config: AssessConfig,
    logs: str | Path,
    mapping: Mapping[str, Any] | str | Path | None,
    budget: float | str,
    out: Path,
    labels: str | Path | None,
    engine: Engine,
    report: Report,
    on_progress: OnProgress,
    command: str,
) -> Assessment:
    """Do what is not yet done, and write assessment.json and the page."""
    share = chance_of(budget)
    if not 0 < share < 1:
        raise RciError(
            f"the budget is the share of runs that may be stopped, such as 0.05 or 5%, not {budget!r}."
        )
    place = logs_of(logs, mapping, labels, out)
    prepare_folder(out)
    with alone_in(out):
        write_json(out / "config.json", {"command": command, "settings": config.as_table()})
        run_tasks(place.jobs, LOCAL, report, pool=ThisProcess(report))
        return _run(config, place, str(logs), share, out, engine, report, on_progress, command)


def _run(
    config: AssessConfig,
    place: Logs,
    source: str,
    budget: float,
    out: Path,
    engine: Engine,
    report: Report,
    on_progress: OnProgress,
    command: str,
) -> Assessment:
    episodes, labels = store.read(place.episodes, "episodes"), store.read(place.labels, "labels")
    labels.check_parent(episodes)
    oddities = check_logs(episodes, labels)
    rate = promised_rate(config, episodes, labels)
    jobs = plan(config, budget, place.episodes, place.labels, out, rate)
    planned = {job.name for job in jobs}
    timings = {name: seconds for name, seconds in read_timings(out).items() if name in planned}
    run_timed(jobs, out, engine, TimeLeft(jobs, report, on_progress), timings)
    choosing, judging = (store.read(out / f"estimates-{part}", "estimates") for part in PARTS[1:])
    chosen = choose_policy(choosing.policies, policy_names(config, budget), budget)
    verdict = judging[chosen].verdict(budget)
    table = assessment_table(config, source, budget, chosen, verdict, choosing, judging)
    write_json(out / "assessment.json", table)
    with reporting(report, "page"):
        page = _write_page(
            config,
            place,
            source,
            budget,
            out,
            command,
            chosen,
            judging,
            (episodes, labels),
            oddities,
            timings,
        )
    return Assessment(verdict, budget, out / "policies" / folder_of(chosen), out / "monitor", page, table)


def assessment_table(
    config: AssessConfig,
    source: str,
    budget: float,
    chosen: str,
    verdict: Verdict,
    choosing: Estimates,
    judging: Estimates,
) -> dict[str, Any]:
    """The content of assessment.json: plain JSON values."""
    rows = [
        {
            "name": name,
            "budget": None if limit == float("inf") else limit,
            "folder": f"policies/{folder_of(name)}",
            "verdict": judging[name].verdict(budget).word,
            "selection": choosing[name].as_table(),
            "held_out": judging[name].as_table(),
        }
        for name, limit in policy_names(config, budget).items()
    ]
    return {
        "logs": source,
        "budget": budget,
        "verdict": {
            "word": verdict.word,
            "reasons": list(verdict.reasons),
            "remedies": list(verdict.remedies),
        },
        "chosen": chosen,
        "policies": rows,
    }


def _write_page(
    config: AssessConfig,
    place: Logs,
    source: str,
    budget: float,
    out: Path,
    command: str,
    chosen: str,
    judging: Estimates,
    logged: tuple[Episodes, Labels],
    oddities: list[str],
    timings: dict[str, float],
) -> Path:
    import numpy as np

    from rci import load
    from rci.pipeline.assessing import evidence
    from rci.pipeline.trainings import training_remarks
    from rci.reporting.assessment.contents import AssessmentInput, JudgedPolicy
    from rci.reporting.assessment.page import write_assessment
    from rci.tasks import TASKS

    episodes, labels = logged
    held = evidence.HeldOut(out, load(out / "policies" / folder_of(chosen)))
    signals, count = held.telling_signals(), config.show.episodes
    task = TASKS.get(episodes.task)
    rate = task.rate if task is not None else None if episodes.signals is None else episodes.signals.rate
    parts = {name: store.read(part_of(out, name).labels, "labels") for name in PARTS}
    return write_assessment(
        AssessmentInput(
            source=source,
            budget=budget,
            policies=tuple(
                JudgedPolicy(
                    name, limit, judging[name], judging[name].verdict(budget), name == chosen, folder_of(name)
                )
                for name, limit in policy_names(config, budget).items()
            ),
            facts=evidence.facts_of(episodes, labels, len(np.unique(runs_of(episodes)))),
            notes=(*oddities, *evidence.notes_of(place.labels)),
            parts={name: (len(labels), int(labels.stopped.sum())) for name, labels in parts.items()},
            action_names=episodes.labels_of("action"),
            different=tuple(held.shown(i, signals) for i in held.most_different(count)),
            stopped=tuple(held.shown(i, signals) for i in held.stopped_ones(count)),
            watching=evidence.watching(out, held),
            command=command,
            settings=config.as_table(),
            versions=store.read_manifest(out / "training")["provenance"]["versions"],
            timings=timings,
            level=config.level,
            rewarded=bool(np.any(np.asarray(episodes.reward) != 0)),
            remarks=tuple(training_remarks([], out / "behaviour")),
            step_seconds=None if rate is None else 1 / rate,
            task=episodes.task,
        ),
        out / "report",
    )

"""`rci labels ...`: what is done with the answers of a labelling session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rci.data.errors import RciError, unknown_name
from rci.data.record import Array
from rci.data.store import Provenance, check_place, read, read_manifest, write
from rci.data.types import Episodes, Labels
from rci.labeling.people.agreement import agreement, agreement_table, gold_accuracy
from rci.labeling.people.answers import STOP, Answer
from rci.labeling.people.consensus import DROP, MISSING_WAYS, REFUSE, consensus, resolve, takeovers_of
from rci.labeling.people.delay import Delay, estimate_delays, pace_of, why_no_delay, without_delays
from rci.labeling.people.files import SUFFIXES, answers_from_labels, read_answers, write_answers, write_stops
from rci.labeling.people.sessions.session import Session, open_session, read_session
from rci.labeling.server.exhibit import Exhibit
from rci.tasks import TASKS

Output = tuple[dict[str, Any], str]  # a result for machines, and the same for people


@dataclass(frozen=True)
class Wish:
    """What somebody wants to have exported."""

    out: Path
    episodes: Path | None = None
    answers: bool = False  # every answer by itself, in place of one label for each episode
    quorum: int | None = None
    calibrate: bool = False
    annotators: tuple[str, ...] = ()
    missing: str = REFUSE
    no_kinds: bool = False  # count every stop alike, whatever kind of danger it names
    takeovers: bool = False  # when a person drove, in place of labels

    @property
    def to_file(self) -> bool:
        """Whether a file is wanted, and not an artefact."""
        return self.out.suffix in SUFFIXES


def report_agreement(folder: Path) -> Output:
    """Agreement, accuracy on gold episodes and reaction times."""
    session = read_session(folder)
    answers = session.answers()
    if not answers:
        raise RciError(f"nobody has answered anything in {folder} yet.")
    summary, gold = agreement(answers), gold_accuracy(answers, session.gold)
    delays = estimate_delays(answers, session.gold, session.rate)
    unknown = why_no_delay(answers, session.gold, session.rate)
    lines = [unknown.get(name) or f"{name}: {_delay_text(delay)}" for name, delay in delays.items()]
    text = "\n".join([agreement_table(summary, gold), "", "Reaction time", *lines])
    return {**summary, "gold": gold, "delays": _plain(delays)}, text


def write_export(folder: Path, wish: Wish) -> Output:
    """Write labels or answers to files or artefacts."""
    if wish.missing not in MISSING_WAYS:
        raise unknown_name("way to treat episodes without a label", wish.missing, MISSING_WAYS)
    session = read_session(folder)
    answers = session.answers(wish.annotators)
    if wish.answers:
        return _export_answers(answers, wish)
    if wish.episodes is None:
        raise RciError("labels belong to episodes: name those that were labeled, or export --answers.")
    if not wish.to_file:
        check_place(wish.out)
    episodes: Episodes = read(wish.episodes, "episodes")
    session.check_parent(episodes)
    if wish.takeovers:
        return _export_takeovers(session, answers, episodes, wish)
    delays = _delays(session, answers) if wish.calibrate else {}
    kinds = () if wish.no_kinds or len(session.kinds) < 2 else session.kinds
    agreed = consensus(answers, len(episodes), wish.quorum, without_delays(delays, session.rate), kinds)
    labelled, labels = resolve(agreed, episodes, wish.missing)
    written = _write(
        labels, None if labelled is episodes else labelled, wish, _settings(session, delays, wish)
    )
    result = {
        "episodes": len(labels),
        "stopped": int(labels.stopped.sum()),
        "without_label": len(agreed.unresolved),
        "delays": _plain(delays),
        "out": written,
    }
    lines = [f"{len(labels)} episodes, {result['stopped']} of them stopped: {' and '.join(written)}"]
    if len(agreed.unresolved):
        way = "were left out" if wish.missing == DROP else "count as safe"
        lines.append(f"{len(agreed.unresolved)} episodes without a label {way}")
    lines += [f"stops of {name} were shifted back: {_delay_text(delay)}" for name, delay in delays.items()]
    if labels.channels:
        kinds_of_stops = dict(zip(labels.channels, (labels.cost > 0).sum(axis=0).tolist()))
        result["kinds"] = kinds_of_stops
        lines.append(", ".join(f"{count} for {kind}" for kind, count in kinds_of_stops.items()))
    if any(answer.takeovers for answer in answers):
        lines.append("takeovers were marked as well: write them with --takeovers")
    return result, "\n".join(lines)


def import_answers(folder: Path, source: Path, annotator: str | None, episodes: Path | None) -> Output:
    """Add the answers of a file or of labels to a session; all of them, or none."""
    recorded: Episodes | None = None if episodes is None else read(episodes, "episodes")
    if recorded is None:
        there = read_session(folder)
        answers = _answers_in(source, there.lengths, there.episodes_hash, annotator)
    else:
        answers = _answers_in(source, recorded.lengths, recorded.hash, annotator)
    rate = None if recorded is None else Exhibit(recorded, TASKS.get(recorded.task)).rate
    # Only now: a file that cannot be read does not leave a new session behind.
    session = open_session(folder, recorded, rate)
    try:
        session.add_all(answers)
    finally:
        session.close()
    names = sorted({answer.annotator for answer in answers})
    said = f"{len(answers)} answers of {', '.join(names) or 'nobody'} were added to {folder}."
    return {"answers": len(answers), "annotators": names}, said


def _answers_in(source: Path, lengths: Array, episodes_hash: str, annotator: str | None) -> list[Answer]:
    if not source.is_dir():
        return read_answers(source, lengths, annotator)
    labels: Labels = read(source, "labels")
    if labels.episodes_hash != episodes_hash:
        raise RciError(
            f"{source} has labels of other episodes: of {labels.episodes_hash[:12]}, but the session is about "
            f"{episodes_hash[:12]}."
        )
    if annotator is None:
        raise RciError("labels do not say who gave them: name them with --annotator.")
    return answers_from_labels(labels, annotator)


def _export_answers(answers: Sequence[Answer], wish: Wish) -> Output:
    if wish.calibrate or wish.quorum is not None or wish.missing != REFUSE or wish.no_kinds or wish.takeovers:
        raise RciError(
            "--answers exports what was pressed, as it is: no --calibrate, --quorum, --missing, --no-kinds or "
            "--takeovers."
        )
    write_answers(wish.out, answers)
    said = f"{len(answers)} answers were written to {wish.out}."
    return {"answers": len(answers), "out": str(wish.out)}, said


def _export_takeovers(session: Session, answers: Sequence[Answer], episodes: Episodes, wish: Wish) -> Output:
    if wish.calibrate or wish.missing != REFUSE or wish.no_kinds or wish.to_file:
        raise RciError(
            "--takeovers writes when a person drove, as an artefact: --out is a folder, and there is no --calibrate, "
            "--missing or --no-kinds."
        )
    if not any(answer.takeovers for answer in answers):
        raise RciError(
            "nobody marked a takeover; `rci serve --takeovers` asks for them. Without one there is nothing to write."
        )
    takeovers = takeovers_of(answers, episodes, wish.quorum)
    write(wish.out, takeovers, Provenance(_settings(session, {}, wish), 0, {"episodes": episodes.hash}))
    driven, runs = int((takeovers.end - takeovers.begin).sum()), len(set(takeovers.episode.tolist()))
    result = {"takeovers": len(takeovers), "episodes": runs, "steps": driven, "out": str(wish.out)}
    return (
        result,
        f"{len(takeovers)} takeovers in {runs} episodes, {driven} steps driven by a person: {wish.out}",
    )


def _delays(session: Session, answers: Sequence[Answer]) -> dict[str, Delay]:
    """The reaction time of everybody whose stops are to be shifted; refused if somebody's is not known.

    Whoever stopped nothing, or only while paused, did not press late.
    """
    late = {a.annotator for a in answers if a.verdict == STOP and pace_of(a, session.rate) > 0}
    for name, reason in why_no_delay(answers, session.gold, session.rate).items():
        if name in late:
            raise RciError(f"{reason} Leave --calibrate out, or choose others with --annotator.")
    delays = estimate_delays(answers, session.gold, session.rate)
    return {name: delay for name, delay in delays.items() if delay is not None}


def _write(labels: Labels, subset: Episodes | None, wish: Wish, settings: dict[str, Any]) -> list[str]:
    """The episodes first, if only some of them have a label: labels without them are of no use."""
    written = []
    if subset is not None and wish.episodes is not None:
        place = wish.out.with_name(f"{wish.out.stem if wish.to_file else wish.out.name}-episodes")
        if place.resolve() == wish.episodes.resolve():
            raise RciError(f"{place} holds all episodes; choose another --out for those that have a label.")
        parents = {"episodes": read_manifest(wish.episodes)["hash"]}
        written.append(str(write(place, subset, Provenance(settings, 0, parents))))
    if wish.to_file:
        write_stops(wish.out, labels)
    else:
        write(wish.out, labels, Provenance(settings, 0, {"episodes": labels.episodes_hash}))
    return [*written, str(wish.out)]


def _settings(session: Session, delays: Mapping[str, Delay], wish: Wish) -> dict[str, Any]:
    return {
        "annotators": list(wish.annotators) or sorted(session.standing),
        "quorum": wish.quorum,
        "delays": _plain(delays),
        "missing": wish.missing,
    }


def _delay_text(delay: Delay | None) -> str:
    return (
        "not known"
        if delay is None
        else f"{delay.seconds:.2f} s [{delay.low:.2f}, {delay.high:.2f}], from {delay.stops} stops ({delay.source})"
    )


def _plain(delays: Mapping[str, Delay | None]) -> dict[str, Any]:
    return {name: None if delay is None else asdict(delay) for name, delay in delays.items()}

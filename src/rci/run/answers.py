"""`rci labels ...`: what is done with the answers of a labelling session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.data.store import Provenance, check_place, read, write
from rci.data.types import Episodes, Labels
from rci.labeling.agreement import agreement, agreement_table, gold_accuracy
from rci.labeling.answers import Answer
from rci.labeling.consensus import MISSING, Consensus, consensus, resolve
from rci.labeling.delay import Delay, delay_table, estimate_delays
from rci.labeling.exchange import answers_from_labels, read_answers, write_answers, write_stops
from rci.labeling.session import OpenSession, Session, open_session, read_session

FILES = (".csv", ".jsonl")


@dataclass(frozen=True)
class Wish:
    """What somebody wants to have exported."""

    out: Path
    answers: bool = False
    quorum: int | None = None
    calibrate: bool = False
    annotators: tuple[str, ...] = ()
    missing: str = "refuse"
    episodes: Path | None = None


def tell_agreement(folder: Path) -> tuple[dict[str, Any], str]:
    """Agreement, accuracy on gold episodes and reaction times: as JSON values, and as text."""
    session = read_session(folder)
    answers = session.answers()
    if not answers:
        raise RciError(f"nobody has answered anything in {folder} yet.")
    found = agreement(answers)
    gold = gold_accuracy(answers, session.gold)
    delays = estimate_delays(answers, session.gold, session.rate)
    text = f"{agreement_table(found, gold)}\n\n{delay_table(delays)}"
    return {**found, "gold": gold, "delays": _plain(delays)}, text


def write_export(folder: Path, wish: Wish) -> tuple[dict[str, Any], str]:
    """Write labels or answers; what was written, as JSON values and as text."""
    if wish.missing not in MISSING:
        raise unknown_name("way to treat episodes without a label", wish.missing, MISSING)
    if (wish.missing == "drop") != (wish.episodes is not None):
        raise RciError(
            "--missing drop and --episodes belong together: the episodes with a label are taken out of them."
        )
    if wish.out.suffix.lower() not in FILES and wish.out.suffix and not wish.out.is_dir():
        raise RciError(
            f"labels are exported to .csv and .jsonl files or to a folder, not to {wish.out.name}."
        )
    session = read_session(folder)
    answers = session.answers(wish.annotators)
    if wish.answers:
        return _export_answers(answers, wish)
    delays = estimate_delays(answers, session.gold, session.rate) if wish.calibrate else {}
    _check_delays(delays, wish)
    found = consensus(answers, len(session.lengths), wish.quorum, delays, session.rate)
    return _export_labels(session, found, delays, wish)


def import_answers(
    folder: Path, source: Path, annotator: str | None, episodes: Path | None
) -> tuple[dict[str, Any], str]:
    """Add the answers of a file or of labels to a session; all of them, or none."""
    session = open_session(folder, None if episodes is None else read(episodes, "episodes"))
    try:
        answers = _answers_in(source, session, annotator)
        session.add_all(answers)
    finally:
        session.close()
    names = sorted({answer.annotator for answer in answers})
    return (
        {"answers": len(answers), "annotators": names},
        f"{len(answers)} answers of {', '.join(names) or 'nobody'} were added to {folder}.",
    )


def _answers_in(source: Path, session: OpenSession, annotator: str | None) -> list[Answer]:
    if not source.is_dir():
        return read_answers(source, session.lengths, annotator)
    labels: Labels = read(source, "labels")
    if labels.episodes_hash != session.episodes_hash:
        raise RciError(f"{source} has labels of other episodes than {session.folder}.")
    if annotator is None:
        raise RciError("labels do not say who gave them: name them with --annotator.")
    return answers_from_labels(labels, annotator)


def _export_answers(answers: Sequence[Answer], wish: Wish) -> tuple[dict[str, Any], str]:
    if wish.calibrate or wish.quorum is not None or wish.missing != "refuse":
        raise RciError("--answers exports what was pressed, as it is: no --calibrate, --quorum or --missing.")
    if wish.out.suffix.lower() not in FILES:
        raise RciError(f"answers are exported to a .csv or .jsonl file, not to {wish.out}.")
    write_answers(wish.out, answers)
    return {
        "answers": len(answers),
        "out": str(wish.out),
    }, f"{len(answers)} answers were written to {wish.out}."


def _export_labels(
    session: Session, found: Consensus, delays: Mapping[str, Delay | None], wish: Wish
) -> tuple[dict[str, Any], str]:
    labels, chosen = resolve(found, session, wish.missing)
    subset = None
    if wish.episodes is not None:
        episodes: Episodes = read(wish.episodes, "episodes")
        session.check_parent(episodes)
        subset = episodes.take(chosen)
        labels = Labels.for_episodes(subset, labels.stop_index)
    written = _write(labels, subset, wish, _provenance(session, delays, wish))
    stopped, count = int(labels.stopped.sum()), len(labels)
    calibrated = {name: delay.seconds for name, delay in delays.items() if delay is not None}
    facts = {
        "episodes": count,
        "stopped": stopped,
        "without_label": len(session.lengths) - int((found.stop_index >= -1).sum()),
        "calibrated": calibrated,
        "out": written,
    }
    shifted = "".join(f"\nstops of {n} shifted back by {s:.2f} s" for n, s in sorted(calibrated.items()))
    return facts, f"{count} episodes, {stopped} of them stopped: {' and '.join(written)}{shifted}"


def _write(labels: Labels, subset: Episodes | None, wish: Wish, provenance: Provenance) -> list[str]:
    """The episodes first: labels without them are of no use."""
    written = []
    is_file = wish.out.suffix.lower() in FILES
    if not is_file:
        check_place(wish.out)
    if subset is not None:
        place = wish.out.with_name(f"{wish.out.stem if is_file else wish.out.name}-episodes")
        written.append(str(write(place, subset, provenance)))
    if is_file:
        write_stops(wish.out, labels)
    else:
        write(wish.out, labels, provenance)
    return [*written, str(wish.out)]


def _provenance(session: Session, delays: Mapping[str, Delay | None], wish: Wish) -> Provenance:
    settings = {
        "annotators": sorted(session.standing) if not wish.annotators else list(wish.annotators),
        "quorum": wish.quorum,
        "delays": _plain(delays),
        "missing": wish.missing,
    }
    return Provenance(settings, 0, {"episodes": session.episodes_hash})


def _check_delays(delays: Mapping[str, Delay | None], wish: Wish) -> None:
    """Refuse to leave somebody's stops as they are when they were to be calibrated."""
    unknown = sorted(name for name, delay in delays.items() if delay is None)
    if unknown:
        raise RciError(
            f"the reaction time of {', '.join(unknown)} cannot be told: that takes at least five stops of gold "
            "episodes, or of repeated ones at different speeds. Leave --calibrate out, or choose others with --annotator."
        )


def _plain(delays: Mapping[str, Delay | None]) -> dict[str, Any]:
    return {name: None if delay is None else asdict(delay) for name, delay in delays.items()}


__all__ = ["Wish", "import_answers", "tell_agreement", "write_export"]
_ = np

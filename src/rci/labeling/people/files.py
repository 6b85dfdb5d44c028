"""Answers and stops to and from CSV and JSONL files, for spreadsheets and other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from rci.data.disk.files import write_file
from rci.data.errors import RciError, unknown_name
from rci.data.record import check_lengths
from rci.data.types import Labels
from rci.labeling.people.answers import SAFE, STOP, VERDICTS, Answer, check_name
from rci.labeling.people.tables import MISSING, amount, flag, grade, is_empty, read_rows, whole_number

COLUMNS = (
    "annotator", "episode", "showing", "verdict", "stop_index", "seconds", "pace", "watched", "time", "review",
)  # fmt: skip
REMARKS = {
    "kinds": (),
    "severity": 1.0,
    "takeovers": (),
    "note": "",
}  # columns that a file has where they say something
BETWEEN = ";"  # kinds or takeovers in one cell
UP_TO = ".."  # in a takeover: a spreadsheet takes 3-7 for a day
FORMULA = tuple("=+-@")
SUFFIXES = (".csv", ".jsonl")
EMPTY_FILE = "a file without answers still has a line with the names of its columns."


def write_answers(path: str | Path, answers: Iterable[Answer]) -> None:
    """Write answers to a .csv or .jsonl file, whole or not at all; what is not known is empty, or null.

    There are columns for kinds of danger, severity, takeovers and notes only if some answer has them.
    """
    listed = list(answers)
    said = [name for name, usual in REMARKS.items() if any(getattr(a, name) != usual for a in listed)]
    columns = (*COLUMNS, *said)
    rows = []
    for answer in listed:
        row = {name: getattr(answer, name) for name in columns}
        stopped = answer.verdict == STOP
        row["stop_index"] = answer.stop_index if stopped else None
        if "severity" in row and not stopped:
            row["severity"] = None
        rows.append(row)
    _write_rows(Path(path), columns, rows)


def read_answers(path: str | Path, lengths: ArrayLike, annotator: str | None = None) -> list[Answer]:
    """Answers from a .csv or .jsonl file about episodes of these lengths.

    Needed are `episode` and either `verdict`, with `stop_index` where it is stop, or only `stop_index`, which is empty,
    null or -1 where the episode is safe. Every other column of `write_answers` may be missing or empty; more columns
    do no harm. annotator: who gave the answers, if the file does not say. An episode that the file does not name has
    no answer; it is not safe for that.
    """
    recorded = check_lengths(lengths).tolist()
    if annotator is not None:
        check_name(annotator)
    answers = []
    lines: dict[tuple[str, int, int], int] = {}
    columns = {*COLUMNS, *REMARKS}
    for line, row in read_rows(Path(path), "answers", EMPTY_FILE):
        where = f"{path}, line {line}"
        for name in row.keys() - columns:
            _refuse_misspelt(name, where)
            columns.add(name)
        answer = _answer(row, where, recorded, annotator)
        key = (answer.annotator, *answer.item)
        if key in lines:
            raise RciError(
                f"{where}: {answer.annotator} answered episode {answer.episode}, showing {answer.showing}, in line "
                f"{lines[key]} already; keep one of the two."
            )
        lines[key] = line
        answers.append(answer)
    return answers


def answers_from_labels(labels: Labels, annotator: str) -> list[Answer]:
    """Labels as the answers of an annotator who saw every episode; of several channels the worst is the severity."""
    check_name(annotator)
    answers = []
    for episode, (stop, costs) in enumerate(zip(labels.stop_index.tolist(), labels.channel_cost.tolist())):
        kinds = tuple(name for name, cost in zip(labels.channels, costs) if cost > 0)
        severity = max(costs) if stop >= 0 else 1.0
        verdict = STOP if stop >= 0 else SAFE
        answers.append(
            Answer(annotator, episode, verdict, stop, imported=True, kinds=kinds, severity=severity)
        )
    return answers


def write_stops(path: str | Path, labels: Labels) -> None:
    """Write labels to a .csv or .jsonl file that `rules.read_stops` reads; -1 where an episode was not stopped.

    There is a column `severity` only if some stop costs other than 1.
    """
    if labels.channels:
        raise RciError(
            f"a file of stops has one severity for each, but these labels have {len(labels.channels)} channels "
            f"({', '.join(labels.channels)}); keep them as an artefact."
        )
    graded = bool((labels.cost[labels.stopped] != 1).any())
    columns = ("episode", "stop_index", "severity") if graded else ("episode", "stop_index")
    rows = [
        {"episode": i, "stop_index": stop, "severity": cost if stop >= 0 else None}
        for i, (stop, cost) in enumerate(zip(labels.stop_index.tolist(), labels.cost.tolist()))
    ]
    _write_rows(Path(path), columns, [{name: row[name] for name in columns} for row in rows])


def _answer(row: Mapping[str, Any], where: str, lengths: Sequence[int], annotator: str | None) -> Answer:
    """One row of a file, checked."""
    needed = ("episode", "verdict") if "verdict" in row else ("episode", "stop_index")
    if any(row.get(name, MISSING) is MISSING for name in needed):
        got = ", ".join(name for name, value in row.items() if value is not MISSING)
        raise RciError(f"{where}: needs `episode`, and `verdict` or `stop_index`, got {got or 'nothing'}.")
    episode = whole_number(row["episode"], f"{where}: episode")
    if not 0 <= episode < len(lengths):
        raise RciError(f"{where}: episode must be 0 to {len(lengths) - 1}, got {episode}.")

    def optional(name: str, parse: Callable[[Any, str], Any]) -> Any:
        value = row.get(name, MISSING)
        return None if value is MISSING or is_empty(value) else parse(value, f"{where}: {name}")

    stop = optional("stop_index", whole_number)
    stop = -1 if stop is None else stop
    steps = lengths[episode]
    if not -1 <= stop < steps:
        raise RciError(
            f"{where}: episode {episode} has {steps} steps, so stop_index must be -1 or 0 to {steps - 1}, got {stop}."
        )
    showing = optional("showing", whole_number) or 0
    if showing < 0:
        raise RciError(f"{where}: showing must be a number from 0 on, got {showing}.")
    watched = optional("watched", whole_number)
    if watched is not None and not 0 <= watched <= steps:
        raise RciError(f"{where}: episode {episode} has the moments 0 to {steps}, got watched {watched}.")
    fields = {
        "annotator": _annotator(row.get("annotator", MISSING), annotator, where),
        "episode": episode,
        "verdict": _verdict(row, stop, where),
        "stop_index": stop,
        "showing": showing,
        "seconds": optional("seconds", amount),
        "pace": optional("pace", amount),
        "watched": watched,
        "time": optional("time", amount),
        "review": bool(optional("review", flag)),
        "kinds": optional("kinds", _parts) or (),
        "severity": 1.0 if (severity := optional("severity", grade)) is None else severity,
        "takeovers": optional("takeovers", _intervals) or (),
        "note": _note(row.get("note", MISSING)),
    }
    try:
        answer = Answer(**fields, imported=True)
    except RciError as error:
        raise RciError(f"{where}: {error}") from None
    if answer.takeovers and answer.takeovers[-1][1] > steps:
        raise RciError(
            f"{where}: episode {episode} has {steps} steps, so a takeover cannot last up to step "
            f"{answer.takeovers[-1][1]}."
        )
    return answer


def _parts(value: Any, where: str) -> tuple[Any, ...]:
    """Several things in one field: a list in JSON, text with semicolons in a table."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, str):
        raise RciError(f"{where} must be a list, or text with {BETWEEN!r} between its parts, got {value!r}.")
    return tuple(part.strip() for part in value.split(BETWEEN) if part.strip())


def _intervals(value: Any, where: str) -> tuple[Any, ...]:
    """Takeovers: pairs in JSON, 3..7;10..20 in a table."""
    pairs = []
    for part in _parts(value, where):
        pair = part.split(UP_TO) if isinstance(part, str) else part
        if not isinstance(pair, list) or len(pair) != 2:
            raise RciError(f"{where} must be written as 3{UP_TO}7{BETWEEN}10{UP_TO}20, got {value!r}.")
        pairs.append(tuple(whole_number(number, where) for number in pair))
    return tuple(pairs)


def _note(value: Any) -> Any:
    """A note, without the apostrophe that kept a spreadsheet from taking it for a formula."""
    if value is MISSING or value is None:
        return ""
    guarded = isinstance(value, str) and value[:1] == "'" and value.lstrip("' ")[:1] in FORMULA
    return value[1:] if guarded else value


def _verdict(row: Mapping[str, Any], stop: int, where: str) -> str:
    """What the row says, which must fit its stop index; without a verdict the stop index says it."""
    if "verdict" not in row:
        return STOP if stop >= 0 else SAFE
    verdict = str(row["verdict"]).strip().lower()
    if verdict not in VERDICTS:
        raise RciError(f"{where}: {unknown_name('verdict', str(row['verdict']), VERDICTS)}")
    if (verdict == STOP) != (stop >= 0):
        wrong = "needs a stop_index" if verdict == STOP else f"has no stop_index, got {stop}"
        raise RciError(f"{where}: the verdict {verdict} {wrong}; correct one of the two columns.")
    return verdict


def _annotator(field: Any, given: str | None, where: str) -> str:
    """Who answered: as the file says, or as the caller does, who must not contradict it."""
    named = "" if field is MISSING or field is None else str(field).strip()  # "None" may be a name
    if not named and given is None:
        raise RciError(f"{where} does not say who answered: add a column `annotator`, or name the annotator.")
    if named and given is not None and named != given:
        raise RciError(
            f"{where} is by {named}, not by {given}; name nobody, or remove the column `annotator`."
        )
    try:
        return check_name(named or str(given))
    except RciError as error:
        raise RciError(f"{where}: {error}") from None


def _refuse_misspelt(name: str | None, where: str) -> None:
    """A column that is almost one of ours: without this, its content would get lost without a word."""
    if name is None:
        raise RciError(f"{where} has more fields than there are columns; put quotes around text with commas.")
    for near in get_close_matches(name.strip().lower(), [*COLUMNS, *REMARKS], n=1, cutoff=0.85):
        raise RciError(f"{where}: unknown column {name!r}. Did you mean `{near}`? Rename or remove it.")


def _write_rows(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    if path.suffix == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(name, value) for name, value in row.items()} for row in rows)
        content = text.getvalue()
    elif path.suffix == ".jsonl":
        content = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    else:
        raise RciError(f"labels are written to .csv or .jsonl files, not to {path.name}.")
    write_file(path, content.encode())


def _cell(name: str, value: Any) -> Any:
    """As JSON writes it, but nothing for null: truth values in small letters, numbers with all their digits."""
    if name == "takeovers":
        return BETWEEN.join(f"{begin}{UP_TO}{end}" for begin, end in value)
    if name == "kinds":
        return BETWEEN.join(value)
    if name == "note":
        return f"'{value}" if value.lstrip("' ")[:1] in FORMULA else value
    return json.dumps(value) if isinstance(value, bool) else value

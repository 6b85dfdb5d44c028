"""The folder of a labelling session: what is labelled, who may label, and everything that was ever answered.

session.json   which episodes, at how many steps a second they are played, and the kinds of danger
gold.json      episodes whose right answer is known, if there are some
answers.jsonl  the journal of all actions
tokens.json    the secret links; needed by nobody else, so leave it out when the folder is passed on
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.artefacts.episodes import Episodes
from rci.data.disk.files import saying, write_file
from rci.data.errors import RciError, unknown_name
from rci.data.record import Array
from rci.labeling.people.answers import Action, Answer, Standing, Undo, check_name, fold
from rci.labeling.people.remarks import check_kinds
from rci.labeling.people.sessions.journal import Journal, read_journal

FORMAT = 1
DEFAULT_RATE = 10.0  # steps per second, for episodes of which nobody knows how long a step takes
TOKEN_BYTES = 24
SOMEBODY = "annotator"  # the name of whoever labels, if nobody is named
DEFAULTS = {field.name: field.default for field in fields(Answer)}


class Session:
    """Answers to the episodes of one dataset. Whoever has it open for writing is the only one who writes."""

    def __init__(self, folder: Path, facts: Mapping[str, Any], actions: list[Action]) -> None:
        self.folder = folder
        self.episodes_hash: str = facts["episodes"]
        self.lengths: Array = np.array(facts["lengths"], np.int64)
        self.rate: float = facts["rate"]
        self.offered_kinds: tuple[str, ...] = tuple(facts.get("kinds", ()))  # of danger, to choose from
        self.gold: dict[int, int] = _read_gold(folder / "gold.json", self.lengths)
        self.standing: dict[str, Standing] = fold(actions)

    def answers(self, annotators: Sequence[str] = ()) -> list[Answer]:
        """Every answer that counts; of these annotators only, if some are named."""
        for name in annotators:
            if name not in self.standing:
                raise unknown_name("annotator", name, self.standing)
        chosen = annotators or sorted(self.standing)
        return [answer for name in chosen for answer in self.standing[name].answers()]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of danger: those to choose from, and then those that some answer names besides."""
        named = [kind for answer in self.answers() for kind in answer.kinds]
        return tuple(dict.fromkeys([*self.offered_kinds, *named]))

    def check_parent(self, episodes: Episodes) -> None:
        """Refuse episodes that other ones were labelled for."""
        if self.episodes_hash != episodes.hash:
            raise RciError(
                f"{self.folder} holds answers to other episodes: to {self.episodes_hash[:12]}, but these are "
                f"{episodes.hash[:12]}; name those episodes, or another folder for the answers."
            )


class OpenSession(Session):
    """A session that is being added to."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self._journal = Journal(folder / "answers.jsonl")
        try:
            entries = self._journal.entries
            super().__init__(folder, facts, [_action(entry, folder) for entry in entries])
        except BaseException:
            self._journal.close()
            raise
        self._by_id = {entry["id"]: entry for entry in entries if "id" in entry}

    def known(self, action_id: str) -> Action | None:
        """The action that came under this id before, if one did."""
        entry = self._by_id.get(action_id)
        return None if entry is None else _action(entry, self.folder)

    @property
    def actions(self) -> int:
        """How many actions there were so far; it only ever grows."""
        return len(self._journal.entries)

    def add(self, answer: Answer, action_id: str) -> None:
        """Save an answer. It is on the disk when this returns."""
        self.check_answer(answer)
        self._save({"id": action_id, **_entry(answer)})
        self.standing.setdefault(answer.annotator, Standing()).add(answer)

    def undo(self, annotator: str, action_id: str) -> Answer | None:
        """Take back the annotator's last answer, and say which one it was; None where there is none."""
        standing = self.standing.get(annotator)
        if standing is None or not standing.undoable:
            return None
        last = standing.undoable[-1]
        self._save({"id": action_id, "undo": list(last.item), "annotator": annotator, "time": time.time()})
        return standing.undo()

    def add_all(self, answers: Sequence[Answer]) -> None:
        """Save many answers at once, all of them or none."""
        for answer in answers:
            self.check_answer(answer)
        self._journal.append(*map(_entry, answers))
        for answer in answers:
            self.standing.setdefault(answer.annotator, Standing()).add(answer)

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer to what is not there."""
        if not 0 <= answer.episode < len(self.lengths):
            raise RciError(
                f"there is no episode {answer.episode}: they are numbered 0 to {len(self.lengths) - 1}."
            )
        if answer.stop_index >= self.lengths[answer.episode]:
            raise RciError(
                f"episode {answer.episode} has {self.lengths[answer.episode]} steps, so it cannot be stopped at "
                f"{answer.stop_index}."
            )
        if answer.watched is not None and answer.watched > self.lengths[answer.episode]:
            raise RciError(
                f"episode {answer.episode} has the moments 0 to {self.lengths[answer.episode]}, got watched "
                f"{answer.watched}."
            )
        if answer.takeovers and answer.takeovers[-1][1] > self.lengths[answer.episode]:
            raise RciError(
                f"episode {answer.episode} has {self.lengths[answer.episode]} steps, so a takeover cannot last up to "
                f"step {answer.takeovers[-1][1]}."
            )

    def set_rate(self, rate: float) -> None:
        """Play at another number of steps per second from now on."""
        self.rate = rate
        self._write_facts()

    def set_kinds(self, kinds: Sequence[str]) -> None:
        """Choose from these kinds of danger from now on; those that answers name already must be among them."""
        chosen = check_kinds(kinds)
        for kind in (kind for answer in self.answers() for kind in answer.kinds):
            if kind not in chosen:
                raise RciError(
                    f"answers in {self.folder} name the kind of danger {kind!r}, which is not among "
                    f"{', '.join(chosen)}; add it to --kinds."
                )
        self.offered_kinds = chosen
        self._write_facts()

    def set_gold(self, gold: Mapping[int, int]) -> None:
        """Keep the right answers to some episodes: their stop indices, -1 where they are safe."""
        _check_gold(gold, self.lengths, "the right answers")
        self.gold = dict(gold)
        write_file(self.folder / "gold.json", _json({str(i): stop for i, stop in sorted(gold.items())}))

    def tokens(self, annotators: Sequence[str], renew: bool = False) -> tuple[dict[str, str], str]:
        """The token of everybody who has one or is named, and the secret that items are named with.

        They are kept, so that a page that is open goes on working when the server is started again. renew: all who
        had one lose it, and those who are named, or had one if nobody is, get new ones.
        """
        path = self.folder / "tokens.json"
        kept = _read_json(path) if path.exists() else {}
        tokens, secret = kept.get("tokens", {}), kept.get("secret")
        if kept and not (isinstance(secret, str) and _texts(tokens)):
            raise RciError(f"{path} is damaged; remove it, and everybody gets a new link.")
        names = annotators or list(tokens) or [SOMEBODY]
        if renew or secret is None:
            tokens, secret = {}, secrets.token_hex(16)
        for name in names:
            tokens.setdefault(check_name(name), secrets.token_urlsafe(TOKEN_BYTES))
        write_file(path, _json({"tokens": tokens, "secret": secret}), mode=0o600)
        return tokens, secret

    def close(self) -> None:
        """Let others write."""
        self._journal.close()

    def _write_facts(self) -> None:
        lengths = [int(n) for n in self.lengths]
        _write_facts(self.folder, self.episodes_hash, lengths, self.rate, self.offered_kinds)

    def _save(self, entry: dict[str, Any]) -> None:
        self._journal.append(entry)
        self._by_id[entry["id"]] = entry


def open_session(
    folder: str | Path, episodes: Episodes | None = None, rate: float | None = None
) -> OpenSession:
    """The session in `folder`, to be added to; a new one for `episodes` if the folder is not there or is empty."""
    place = Path(folder)
    path = place / "session.json"
    if not path.exists():
        if episodes is None:
            raise _no_session(place)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise RciError(f"{place} exists and holds no labelling session; choose another folder.")
        with saying("write", place):
            place.mkdir(parents=True, exist_ok=True)
        _write_facts(place, episodes.hash, [int(n) for n in episodes.lengths], rate or DEFAULT_RATE)
    session = OpenSession(place, _facts(place))
    try:
        if episodes is not None:
            session.check_parent(episodes)
    except RciError:
        session.close()
        raise
    return session


def read_session(folder: str | Path) -> Session:
    """The session in `folder`, to be looked at, also while somebody adds to it."""
    place = Path(folder)
    facts = _facts(place)
    return Session(place, facts, [_action(entry, place) for entry in read_journal(place / "answers.jsonl")])


def _no_session(folder: Path) -> RciError:
    return RciError(
        f"{folder} holds no labelling session: `rci serve EPISODES --labels {folder}` begins one."
    )


def _write_facts(
    folder: Path, episodes_hash: str, lengths: list[int], rate: float, kinds: Sequence[str] = ()
) -> None:
    facts = {"format": FORMAT, "episodes": episodes_hash, "lengths": lengths, "rate": rate}
    if kinds:
        facts["kinds"] = list(kinds)
    write_file(folder / "session.json", _json(facts))


def _facts(folder: Path) -> dict[str, Any]:
    if not (folder / "session.json").is_file():
        raise _no_session(folder)
    facts = _read_json(folder / "session.json")
    if facts.get("format") != FORMAT:
        raise RciError(
            f"{folder} has format {facts.get('format')!r}, this program reads {FORMAT}; update rci."
        )
    lengths, rate = facts.get("lengths"), facts.get("rate")
    whole = isinstance(lengths, list) and all(isinstance(n, int) and n > 0 for n in lengths)
    kinds = facts.get("kinds", [])
    whole = whole and isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds)
    if not (whole and isinstance(facts.get("episodes"), str) and isinstance(rate, int | float) and rate > 0):
        raise RciError(f"{folder / 'session.json'} is damaged; restore it from a copy.")
    return facts


def _read_gold(path: Path, lengths: Array) -> dict[int, int]:
    if not path.exists():
        return {}
    try:
        gold = {int(i): int(stop) for i, stop in _read_json(path).items()}
    except (TypeError, ValueError):
        raise RciError(f"{path} is damaged; name the known episodes again with --gold.") from None
    _check_gold(gold, lengths, str(path))
    return gold


def _check_gold(gold: Mapping[int, int], lengths: Array, where: str) -> None:
    for episode, stop in gold.items():
        if not 0 <= episode < len(lengths):
            raise RciError(
                f"{where}: there is no episode {episode}, they are numbered 0 to {len(lengths) - 1}."
            )
        if not -1 <= stop < lengths[episode]:
            raise RciError(
                f"{where}: episode {episode} has {lengths[episode]} steps, so it is stopped at 0 to "
                f"{lengths[episode] - 1}, or -1 where it is safe, got {stop}."
            )


def _texts(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(text, str) for text in found.values())


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise RciError(f"cannot read {path}: {error}.") from None
    return found


def _json(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _entry(answer: Answer) -> dict[str, Any]:
    """An answer as a line; what is as usual is left out."""
    return {
        name: value
        for name, value in asdict(answer).items()
        if name not in DEFAULTS or value != DEFAULTS[name]
    }


def _action(entry: Mapping[str, Any], folder: Path) -> Action:
    values = {name: entry[name] for name in entry if name in DEFAULTS}
    try:
        if "undo" in entry:
            episode, showing = entry["undo"]
            return Undo(entry["annotator"], (episode, showing), entry.get("time"))
        return Answer(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise RciError(f"{folder / 'answers.jsonl'} has a line that is not an answer: {error}.") from None

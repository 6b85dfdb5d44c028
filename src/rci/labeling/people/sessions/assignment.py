"""Who is shown what: items under names that reveal nothing, and what an annotator is to look at next.

The page knows an item only by its key. So gold and repeated episodes look like any other, and an answer
that comes late, after the server was started again with another order, still goes to the episode that was looked at.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass, replace

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.labeling.people.answers import UNSURE, Answer, Standing, Undo
from rci.labeling.people.remarks import Interval
from rci.labeling.people.sessions.queue import Item
from rci.labeling.people.sessions.session import OpenSession

KEY_DIGITS = 16
HOLD = 600.0  # seconds for which an item that somebody was given is kept from others, if one answer is enough
LOWEST_SPEED = 0.25  # of the speeds that the page offers


class ConflictError(RciError):
    """The same id came with something else before."""


@dataclass(frozen=True)
class Given:
    """An answer as it comes from a page: to which item, and what was said of it."""

    key: str
    verdict: str
    stop_index: int
    seconds: float
    pace: float
    watched: int
    review: bool
    kinds: tuple[str, ...] = ()
    severity: float = 1.0
    takeovers: tuple[Interval, ...] = ()
    note: str = ""


class Assignment:
    """The annotators of a session, each with the queue. votes: answers that an episode needs; None, from everybody."""

    def __init__(
        self,
        session: OpenSession,
        queue: list[Item],
        annotators: list[str],
        secret: str,
        votes: int | None = None,
    ) -> None:
        self.session, self.queue, self.votes = session, queue, votes
        self._place = {item: place for place, item in enumerate(queue)}
        self._keys = {name: {_key(secret, name, item): item for item in queue} for name in annotators}
        self._names = {name: {item: key for key, item in keys.items()} for name, keys in self._keys.items()}
        self._viewing: dict[str, tuple[Item, float]] = {}  # what was given to whom, and when
        # By place in the queue: which episode it is, where its first showing stands, and whether its answer is known.
        self._episode = np.array([episode for episode, _ in queue])
        self._first = np.array([self._place[episode, 0] for episode, _ in queue])
        self._gold = np.isin(self._episode, list(session.gold))
        self._answered = {name: self._answered_by(name) for name in annotators}
        # By episode: how many annotators have said something of it, unsure apart. That is what `votes` counts.
        self._votes = np.zeros(len(session.lengths), np.int64)
        for standing in session.standing.values():
            for answer in standing.answers():
                self._count(None, answer)

    def item(self, annotator: str, key: str) -> Item:
        """The item with this key."""
        try:
            return self._keys[annotator][key]
        except KeyError:
            raise LookupError(key) from None

    def key(self, annotator: str, item: Item | None) -> str | None:
        """The key of an item, for this annotator only; None for nothing, and for what is not in the queue any more."""
        return None if item is None else self._names[annotator].get(item)

    def standing(self, annotator: str) -> Standing:
        """What the annotator says so far."""
        return self.session.standing.get(annotator) or Standing()

    def said(self, annotator: str, item: Item) -> Answer | None:
        """What the annotator says of an item; what they said in a review holds for every showing of the episode."""
        standing = self.standing(annotator)
        first = standing.current((item[0], 0))
        return first if first is not None and first.review else standing.current(item)

    def place(self, item: Item) -> int:
        """Where an item stands in the queue."""
        return self._place[item]

    def neighbours(self, annotator: str, item: Item) -> tuple[Item | None, Item | None]:
        """The items before and after one, among those that the annotator may look at."""
        shown = np.flatnonzero(self._visible(annotator))
        place = self._place[item]
        before, after = shown[shown < place], shown[shown > place]
        return (
            self.queue[before[-1]] if len(before) else None,
            self.queue[after[0]] if len(after) else None,
        )

    def look_at(self, annotator: str, item: Item) -> None:
        """Remember what somebody looks at, so that nobody else is asked the same if one answer is enough."""
        self._viewing[annotator] = item, time.monotonic()

    def next_item(self, annotator: str) -> Item | None:
        """The first item of the queue that this annotator has not answered and should."""
        waiting = self._open(annotator)
        return self.queue[int(waiting.argmax())] if waiting.any() else None

    def counts(self, annotator: str) -> tuple[int, int]:
        """How many items the annotator has answered, and how many there are for them in all.

        Repetitions that will be asked for later count from the beginning: if the total grew with an answer, that would
        show which episode comes again.
        """
        return int(self._answered_of(annotator).sum()), int(self._visible(annotator).sum())

    def visible(self, annotator: str) -> list[Item]:
        """What the annotator may look at, in the order of the queue; as many as `counts` gives in all."""
        return [self.queue[place] for place in np.flatnonzero(self._visible(annotator))]

    def last(self, annotator: str) -> Item | None:
        """The item that was answered last."""
        given = self.standing(annotator).undoable
        return given[-1].item if given else None

    def speed(self, annotator: str, item: Item) -> float | None:
        """How fast to begin: a repetition at half the pace of the first showing, which shows the reaction time."""
        episode, showing = item
        first = self.standing(annotator).current((episode, 0))
        if not showing or first is None or not first.pace:
            return None
        speed = first.pace / self.session.rate
        return speed / 2 if speed / 2 >= LOWEST_SPEED else speed * 2

    def answer(self, annotator: str, action_id: str, given: Given) -> None:
        """Save an answer; once only, if it comes again under the same id.

        In a review it is the label that is mended, whichever of its showings is looked at: the first one counts.
        """
        episode, showing = self.item(annotator, given.key)
        showing = 0 if given.review else showing
        answer = Answer(
            annotator, episode, given.verdict, given.stop_index, showing, given.seconds, given.pace, given.watched,
            time=time.time(), review=given.review, kinds=given.kinds, severity=given.severity,
            takeovers=given.takeovers, note=given.note,
        )  # fmt: skip
        earlier = self.session.known(action_id)
        if earlier is not None:
            if isinstance(earlier, Undo) or replace(earlier, time=answer.time) != answer:
                raise ConflictError(f"the id {action_id} was used for something else before.")
            return
        before = self.standing(annotator).current(answer.item)
        self.session.add(answer, action_id)
        self._count(before, answer)
        self._answered[annotator][self._place[answer.item]] = True

    def undo(self, annotator: str, action_id: str) -> Item | None:
        """Take back the annotator's last answer and say to which item it was; once only under the same id."""
        earlier = self.session.known(action_id)
        if earlier is not None:
            if not isinstance(earlier, Undo) or earlier.annotator != annotator:
                raise ConflictError(f"the id {action_id} was used for something else before.")
            return earlier.item
        last = self.last(annotator)
        if last is None:
            return None
        before = self.standing(annotator).current(last)  # may be an imported one, which stays
        self.session.undo(annotator, action_id)
        remaining = self.standing(annotator).current(last)
        self._count(before, remaining)
        if last in self._place:  # it may be of an earlier start, with other repetitions
            self._answered[annotator][self._place[last]] = remaining is not None
        return last

    def _count(self, before: Answer | None, after: Answer | None) -> None:
        for answer, change in ((before, -1), (after, 1)):
            if answer is not None and _counts(answer):
                self._votes[answer.episode] += change

    def _answered_of(self, annotator: str) -> Array:
        kept = self._answered.get(annotator)
        return self._answered_by(annotator) if kept is None else kept

    def _answered_by(self, annotator: str) -> Array:
        history = self.standing(annotator).history
        return np.array([item in history for item in self.queue])

    def _visible(self, annotator: str) -> Array:
        """Which items were answered, wait, or will: a repetition, from the beginning, like any other."""
        shown = self._answered_of(annotator) | self._open(annotator)
        return np.asarray(shown | shown[self._first])

    def _open(self, annotator: str) -> Array:
        """Which items of the queue wait for this annotator. A repetition does once its first showing is answered."""
        answered, positions = self._answered_of(annotator), np.arange(len(self.queue))
        waiting = ~answered & ((self._first == positions) | answered[self._first])
        if self.votes is None:
            return np.asarray(waiting)
        votes = self._votes[self._episode]
        for name, (viewed, since) in self._viewing.items():
            place = self._place[viewed]
            # An answer that is on its way, unless it is here already or whoever looked has gone away.
            if name != annotator and not self._answered[name][place] and time.monotonic() - since < HOLD:
                votes[place] += 1
        return np.asarray(waiting & (self._gold | (self._first != positions) | (votes < self.votes)))


def _counts(answer: Answer) -> bool:
    return answer.showing == 0 and answer.verdict != UNSURE


def _key(secret: str, annotator: str, item: Item) -> str:
    text = f"{annotator}\n{item[0]}.{item[1]}".encode()
    return hmac.digest(secret.encode(), text, "sha256").hex()[:KEY_DIGITS]

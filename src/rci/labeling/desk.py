"""Who is shown what: items under names that tell nothing, and what an annotator is to look at next.

The page knows an item only by its key. So it cannot tell a gold or a repeated episode from any other, and an answer
that comes late, after the server was started again with another order, still goes to the episode that was looked at.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import Counter
from dataclasses import dataclass, replace

from rci.data.errors import RciError
from rci.labeling.answers import UNSURE, Answer, Standing, Undo
from rci.labeling.queue import Item
from rci.labeling.session import OpenSession

KEY_DIGITS = 16
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


class Desk:
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
        self._keys = {
            name: {_key(secret, name, item): item for item in queue} for name in annotators
        }  # of each annotator
        self._names = {name: {item: key for key, item in keys.items()} for name, keys in self._keys.items()}
        self._viewing: dict[str, Item] = {}
        # How many annotators have said something of each episode, unsure apart: what `votes` counts.
        self._votes = Counter(
            answer.episode
            for standing in session.standing.values()
            for answer in standing.answers()
            if _counts(answer)
        )

    def item(self, annotator: str, key: str) -> Item:
        """The item with this key."""
        try:
            return self._keys[annotator][key]
        except KeyError:
            raise LookupError(key) from None

    def key(self, annotator: str, item: Item) -> str:
        """The key of an item, for this annotator only."""
        return self._names[annotator][item]

    def standing(self, annotator: str) -> Standing:
        """What the annotator says so far."""
        return self.session.standing.get(annotator) or Standing()

    def place(self, item: Item) -> int:
        """Where an item stands in the queue."""
        return self._place[item]

    def neighbours(self, annotator: str, item: Item) -> tuple[Item | None, Item | None]:
        """The items before and after one, among those that the annotator has answered or may answer."""
        standing, place = self.standing(annotator), self._place[item]
        before = (i for i in reversed(self.queue[:place]) if self._shown(annotator, standing, i))
        after = (i for i in self.queue[place + 1 :] if self._shown(annotator, standing, i))
        return next(before, None), next(after, None)

    def look_at(self, annotator: str, item: Item) -> None:
        """Remember what somebody looks at, so that nobody else is asked the same if one answer is enough."""
        self._viewing[annotator] = item

    def next_item(self, annotator: str) -> Item | None:
        """The first item of the queue that this annotator has not answered and should."""
        standing = self.standing(annotator)
        return next((item for item in self.queue if self._open(annotator, standing, item)), None)

    def counts(self, annotator: str) -> tuple[int, int]:
        """How many items the annotator has answered, and how many there are for them in all."""
        standing = self.standing(annotator)
        done = sum(item in standing.history for item in self.queue)
        return done, done + sum(self._open(annotator, standing, item) for item in self.queue)

    def speed(self, annotator: str, item: Item) -> float | None:
        """How fast to begin: a repetition at half the pace of the first showing, which tells the reaction time."""
        episode, showing = item
        first = self.standing(annotator).current((episode, 0))
        if not showing or first is None or not first.pace:
            return None
        speed = first.pace / self.session.rate
        return speed / 2 if speed / 2 >= LOWEST_SPEED else speed * 2

    def answer(self, annotator: str, action_id: str, given: Given) -> None:
        """Save an answer; once only, if it comes again under the same id."""
        episode, showing = self.item(annotator, given.key)
        answer = Answer(
            annotator, episode, given.verdict, given.stop_index, showing, given.seconds, given.pace, given.watched,
            time=time.time(), review=given.review,
        )  # fmt: skip
        known = self.session.known(action_id)
        if known is not None:
            if isinstance(known, Undo) or replace(known, time=answer.time) != answer:
                raise ConflictError(f"the id {action_id} was used for something else before.")
            return
        before = self.standing(annotator).current(answer.item)
        self.session.add(answer, action_id)
        self._count(before, answer)

    def undo(self, annotator: str, action_id: str) -> Item | None:
        """Take back the annotator's last answer and say to which item it was; once only under the same id."""
        known = self.session.known(action_id)
        if known is not None:
            if not isinstance(known, Undo) or known.annotator != annotator:
                raise ConflictError(f"the id {action_id} was used for something else before.")
            return known.item
        taken = self.session.undo(annotator, action_id)
        if taken is None:
            return None
        self._count(taken, self.standing(annotator).current(taken.item))
        return taken.item

    def _count(self, before: Answer | None, after: Answer | None) -> None:
        for answer, change in ((before, -1), (after, 1)):
            if answer is not None and _counts(answer):
                self._votes[answer.episode] += change

    def _open(self, annotator: str, standing: Standing, item: Item) -> bool:
        episode, showing = item
        if item in standing.history:
            return False
        if showing:  # a repetition is of something that was answered
            return (episode, 0) in standing.history
        if self.votes is None or episode in self.session.gold:
            return True
        taken = sum(name != annotator and viewed == item for name, viewed in self._viewing.items())
        return self._votes[episode] + taken < self.votes

    def _shown(self, annotator: str, standing: Standing, item: Item) -> bool:
        return item in standing.history or self._open(annotator, standing, item)


def _counts(answer: Answer) -> bool:
    return answer.showing == 0 and answer.verdict != UNSURE


def _key(secret: str, annotator: str, item: Item) -> str:
    text = f"{annotator}\n{item[0]}.{item[1]}".encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()[:KEY_DIGITS]

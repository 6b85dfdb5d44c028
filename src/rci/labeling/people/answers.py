"""What a person said about an episode, and how a list of actions becomes what they say now.

Actions are only ever added. `Answer` is one of them; `Undo` takes back the last answer of the same annotator that was
not yet taken back. So everything that was ever pressed is kept, and the present state is a fold over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rci.data.errors import RciError
from rci.labeling.people.remarks import Interval, check_intervals, check_note, check_reasons

LONGEST_NAME = 60
NAME = re.compile(r"\w([\w .@+-]*\w)?")
STOP, SAFE, UNSURE = "stop", "safe", "unsure"
VERDICTS = (STOP, SAFE, UNSURE)


@dataclass(frozen=True)
class Answer:
    """One key pressed after watching: stop at a step, safe to the end, or unsure.

    `showing` counts how often the annotator had been shown this episode before: 0, and 1 for its repetition.
    `pace` is how many steps a second went by when the key was pressed, 0 while paused, None where nobody knows.
    """

    annotator: str
    episode: int
    verdict: str
    stop_index: int = -1  # the first unsafe transition; -1 unless the verdict is to stop
    showing: int = 0
    seconds: float | None = None  # from the moment it was shown
    pace: float | None = None  # steps per second
    watched: int | None = None  # the furthest moment that was looked at
    time: float | None = None  # seconds since 1970
    review: bool = False  # given after the inferred step costs, or what is right, were seen
    imported: bool = False  # brought in from a file: undo does not reach it
    kinds: tuple[str, ...] = ()  # of danger, for which it was stopped
    severity: float = 1.0  # of the stop
    takeovers: tuple[Interval, ...] = ()  # when a person drove
    note: str = ""

    def __post_init__(self) -> None:
        check_name(self.annotator)
        if self.verdict not in VERDICTS:
            raise RciError(f"a verdict is one of {', '.join(VERDICTS)}, got {self.verdict!r}.")
        if (self.verdict == STOP) != (self.stop_index >= 0) or self.stop_index < -1:
            raise RciError(f"a stop has a stop index from 0 on, any other verdict -1, got {self.stop_index}.")
        kinds = check_reasons(self.kinds, self.severity, self.verdict == STOP)
        object.__setattr__(self, "kinds", kinds)  # a journal has lists in place of tuples
        object.__setattr__(self, "takeovers", check_intervals(self.takeovers))
        object.__setattr__(self, "note", check_note(self.note))

    @property
    def item(self) -> tuple[int, int]:
        """What was answered: which episode, shown for which time."""
        return self.episode, self.showing


@dataclass(frozen=True)
class Undo:
    """The last answer of this annotator is taken back; `item` is what it was an answer to."""

    annotator: str
    item: tuple[int, int]
    time: float | None = None


Action = Answer | Undo


@dataclass
class Standing:
    """What one annotator says now, and what an undo would take back."""

    history: dict[tuple[int, int], list[Answer]] = field(default_factory=dict)  # by item; the last one counts
    undoable: list[Answer] = field(default_factory=list)

    def current(self, item: tuple[int, int]) -> Answer | None:
        """The answer that counts."""
        given = self.history.get(item)
        return given[-1] if given else None

    def add(self, answer: Answer) -> None:
        """One more answer."""
        self.history.setdefault(answer.item, []).append(answer)
        if not answer.imported:
            self.undoable.append(answer)

    def undo(self) -> Answer | None:
        """Take back the last answer and say which one it was; None where there is none."""
        if not self.undoable:
            return None
        answer = self.undoable.pop()
        given = self.history[answer.item]
        # By identity, not by value: the same answer may have been given twice, and imported ones stay.
        del given[max(i for i, one in enumerate(given) if one is answer)]
        if not given:
            del self.history[answer.item]
        return answer

    def answers(self) -> list[Answer]:
        """Every answer that counts, in the order of episodes."""
        return [given[-1] for _, given in sorted(self.history.items())]


def check_name(name: str) -> str:
    """Refuse names of annotators that are empty, long or odd: they stand in files and on pages."""
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise RciError(
            f"an annotator's name is 1 to {LONGEST_NAME} letters, digits or spaces, '.', '-', '_', '@', '+' inside, "
            f"got {name!r}."
        )
    return name


def fold(actions: Iterable[Action]) -> dict[str, Standing]:
    """What every annotator says after these actions."""
    standing: dict[str, Standing] = {}
    for action in actions:
        one = standing.setdefault(action.annotator, Standing())
        if isinstance(action, Undo):
            one.undo()
        else:
            one.add(action)
    return standing

"""What can be shown of the episodes that people label, and what they are asked beside the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rci.data.artefacts.episodes import Episodes
from rci.data.record import Array
from rci.labeling.server.film_bytes import film_bytes
from rci.labeling.server.films import film_of, picture_at, signals_of
from rci.labeling.server.pictures import Pictures
from rci.tasks.base import Task
from rci.tasks.signal_film import SignalPlan


@dataclass(frozen=True, eq=False)
class Exhibit:
    """What can be shown of the episodes. Costs are for reviews; what rule and oracle say only if it may be revealed."""

    episodes: Episodes
    task: Task | None = None  # whose film it is
    pictures: Pictures | None = None
    costs: list[Array] | None = None  # step costs of each episode, cut at the stop
    stops: Array | None = None  # the stops from which the costs were inferred
    rule: Array | None = None  # stop indices
    unsafe: list[Array] | None = None  # flags of each episode's steps
    instructions: str = ""  # what annotators are to call unsafe
    recorded_stops: Array | None = None  # stop indices of the logs, if annotators are to see them
    severity: bool = False  # whether annotators say how bad a stop was
    takeovers: bool = False  # whether they mark when a person drove

    @cached_property
    def kind(self) -> str:
        """Who draws the film; it is the same for all episodes. Refused if a task cannot draw them."""
        return film_of(self.episodes, 0, self.task, self.pictures, self.signals).kind

    @cached_property
    def signals(self) -> SignalPlan | None:
        """Which signals are drawn, and to which scale."""
        return signals_of(self.episodes, self.task)

    @property
    def rate(self) -> float | None:
        """Steps per second at which the episodes were recorded, where that is known."""
        signals = self.episodes.signals
        if signals is not None and signals.rate is not None:
            return signals.rate
        return None if self.task is None else self.task.rate

    @property
    def reveals(self) -> bool:
        """Whether the page may show what is right."""
        return self.rule is not None or self.unsafe is not None

    def film(self, episode: int) -> bytes:
        """What is sent of an episode."""
        return film_bytes(film_of(self.episodes, episode, self.task, self.pictures, self.signals))

    def picture(self, episode: int, index: int) -> tuple[bytes, str]:
        """A picture of an episode and its media type."""
        return picture_at(self.episodes, episode, index, self.pictures)

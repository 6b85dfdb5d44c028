"""Costs per step: what a redistributor makes of an episodic cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.labels import Labels, by_channel, check_channels, named_channels
from rci.data.artefacts.models import SavedModel
from rci.data.errors import RciError
from rci.data.record import Array, Record, check_finite, check_lengths, set_fields

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUM_TOLERANCE = 1e-6  # how far the step costs of an episode may be from its episodic cost
UNITS = ("cost", "log-survival", "score")  # what the step costs of an episode sum up to


@dataclass(frozen=True, eq=False)
class StepCosts(Record):
    """One cost per kept transition. If `return_equivalent`, each episode's costs sum to its episodic cost.

    With channels, every cost has one column for each of them. `spread` is how far the members of an ensemble
    disagree, one standard deviation per cost. `unit` is what the sum of an episode means: an episodic `cost`, with
    `log-survival` minus the logarithm of the chance that the episode is safe, with `score` nothing but more or less.
    """

    kind: ClassVar[str] = "costs"
    cost: Array  # [steps], or [steps, K]
    lengths: Array  # kept lengths, after the stop
    episodic_cost: Array  # [N], or [N, K]
    return_equivalent: bool
    method: str
    labels_hash: str
    model: SavedModel | None = None
    info: dict[str, Any] = field(default_factory=dict)
    spread: Array | None = None
    channels: tuple[str, ...] = ()
    unit: str = "cost"

    def __post_init__(self) -> None:
        set_fields(
            self,
            lengths=check_lengths(self.lengths),
            cost=np.asarray(self.cost, np.float64),
            episodic_cost=np.asarray(self.episodic_cost, np.float64),
            spread=None if self.spread is None else np.asarray(self.spread, np.float64),
            channels=check_channels("step costs", self.channels),
        )
        steps, each = int(self.lengths.sum()), f" in {len(self.channels)} channels" if self.channels else ""
        for name, array in (("step costs", self.cost), ("spread of step costs", self.spread)):
            if array is None:
                continue
            if array.shape != by_channel((steps,), self.channels):
                raise RciError(
                    f"{name} must have one number for each of {steps} kept steps{each}, got shape {array.shape}."
                )
            check_finite(name, array, self.step_offset)
        if self.spread is not None and self.spread.min() < 0:
            raise RciError("the spread of step costs is a deviation, so it cannot be negative.")
        if self.unit not in UNITS:
            raise RciError(f"the unit of step costs must be one of {', '.join(UNITS)}, got {self.unit!r}.")
        if self.episodic_cost.shape != by_channel(self.lengths.shape, self.channels):
            raise RciError(
                f"step costs need {len(self.lengths)} episodic costs{each}, got {self.episodic_cost.shape}."
            )
        gap = np.abs(self.sums() - self.episodic_cost)
        worst = np.unravel_index(int(gap.argmax()), gap.shape)
        if self.return_equivalent and gap[worst] > SUM_TOLERANCE:
            channel = f", {self.channels[worst[1]]}" if self.channels else ""
            raise RciError(
                f"episode {worst[0]}{channel}: step costs sum to {self.sums()[worst]:.9g}, but its episodic cost is "
                f"{self.episodic_cost[worst]:.9g}; a return-equivalent cost may differ by {SUM_TOLERANCE:g} at most."
            )

    @cached_property
    def step_offset(self) -> Array:
        """Where each episode's costs begin."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def sums(self) -> Array:
        """The sum of step costs of each episode, in each channel."""
        return np.add.reduceat(self.cost, self.step_offset[:-1])

    @cached_property
    def total(self) -> Array:
        """The step costs with all channels added up: [steps]."""
        return self.cost if self.cost.ndim == 1 else np.asarray(self.cost.sum(axis=-1))

    def per_episode(self) -> list[Array]:
        """The step costs of each episode, truncated at the stop: [T], or [T, K] with channels."""
        return np.split(self.cost, self.step_offset[1:-1])

    def figure(self, name: str) -> float | None:
        """A figure that the fit reports under a name, the mean over channels; None if it has none."""
        parts = list(self.info["by_channel"].values()) if "by_channel" in self.info else [self.info]
        figures = [part[name] for part in parts if part.get(name) is not None]
        return float(np.mean(figures)) if figures else None

    def check_parent(self, labels: Labels) -> None:
        """Refuse step costs that were inferred from other labels."""
        if self.labels_hash != labels.hash:
            raise RciError(
                f"these step costs belong to other labels: they were inferred from {self.labels_hash[:12]}, but "
                f"these are {labels.hash[:12]}."
            )

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        exact = "exact sums" if self.return_equivalent else "not return-equivalent"
        channels = f", channels {' and '.join(self.channels)}" if self.channels else ""
        return f"StepCosts({self.method}: {len(self)} episodes, {len(self.cost)} steps, {exact}{channels})"

    def plot(self, episodes: ArrayLike | None = None) -> Figure:
        """The cost of each step of some episodes (the first 40), as a matplotlib figure."""
        from rci.data.artefacts.plots import plot_costs

        return plot_costs(self, None if episodes is None else np.asarray(episodes))

    def arrays(self) -> dict[str, Array]:
        model = {} if self.model is None else {f"model.{k}": v for k, v in self.model.arrays.items()}
        return {
            "cost": self.cost,
            "lengths": self.lengths,
            "episodic_cost": self.episodic_cost,
            **({} if self.spread is None else {"spread": self.spread}),
            **model,
        }

    def meta(self) -> dict[str, Any]:
        return {
            "return_equivalent": self.return_equivalent,
            "method": self.method,
            "labels_hash": self.labels_hash,
            "model": None if self.model is None else [self.model.method, self.model.config],
            "info": self.info,
            **named_channels(self.channels),
            **({} if self.unit == "cost" else {"unit": self.unit}),
        }

    @classmethod
    def restore(cls, arrays: dict[str, Array], meta: dict[str, Any]) -> StepCosts:
        weights = {name[6:]: arrays.pop(name) for name in list(arrays) if name.startswith("model.")}
        described = meta.pop("model")
        model = None if described is None else SavedModel(described[0], described[1], weights)
        fields: dict[str, Any] = {**arrays, **meta, "model": model}
        return cls(**fields)

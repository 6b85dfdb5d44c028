"""Fitted models as plain data: the demonstrators, the behaviour model, the policy and the monitor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.labels import per_channel
from rci.data.artefacts.signals import labels_in
from rci.data.errors import RciError
from rci.data.record import Array, Record, check_seed, float32_numbers
from rci.data.risk.budgets import Budget, parse_budget


class SavedModel(NamedTuple):
    """A fitted network as plain data: which method it is of, how it was set up, its arrays."""

    method: str
    config: dict[str, Any]
    arrays: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Fitted(Record):
    """A record that is one saved model and what is known about it."""

    model: SavedModel
    info: dict[str, Any]

    def arrays(self) -> dict[str, Array]:
        return dict(self.model.arrays)

    def meta(self) -> dict[str, Any]:
        return {"method": self.model.method, "config": self.model.config, "info": self.info}

    @classmethod
    def restore(cls, arrays: dict[str, Array], meta: dict[str, Any]) -> Fitted:
        return cls(_saved_model(arrays, meta), dict(meta["info"]))


@dataclass(frozen=True, eq=False)
class Behaviour(Fitted):
    """A fitted model of the behaviour that recorded the data, shared by every learner that needs one."""

    kind: ClassVar[str] = "behaviour"
    proposal: Array | None = None  # [observations, P, a]: actions it might take at each, in [-1, 1]

    def arrays(self) -> dict[str, Array]:
        own = {} if self.proposal is None else {"proposal": self.proposal}
        return {**self.model.arrays, **own}

    @classmethod
    def restore(cls, arrays: dict[str, Array], meta: dict[str, Any]) -> Behaviour:
        weights = {name: array for name, array in arrays.items() if name != "proposal"}
        return cls(_saved_model(weights, meta), dict(meta["info"]), arrays.get("proposal"))


@dataclass(frozen=True, eq=False)
class Checkpoint(Fitted):
    """A training that was interrupted: the learner's whole state after `info["update"]` updates."""

    kind: ClassVar[str] = "checkpoint"


@dataclass(frozen=True, eq=False)
class Demonstrators(Fitted):
    """Policies of growing skill that record data, each array with one entry per policy, and how they were trained.

    They know the task's reward and nothing of safety.
    """

    kind: ClassVar[str] = "demonstrators"

    def __repr__(self) -> str:
        task, kept = self.info.get("task"), self.info.get("checkpoints", [])
        return f"Demonstrators({self.model.method} on {task}: {len(kept)} checkpoints)"


@dataclass(frozen=True, eq=False)
class Informed(Fitted):
    """A driver that was trained online with the truth about safety: a reference, from which no method may learn."""

    kind: ClassVar[str] = "informed"

    def __repr__(self) -> str:
        return f"Informed({self.info.get('task')}, price {self.info.get('price'):g})"


@dataclass(frozen=True, eq=False)
class SavedMonitor(Fitted):
    """What was fitted for step costs, as far as the risk of a running episode needs it, and when to raise the alarm.

    `info` holds the `level` of the alarm and what is known about how it was chosen.
    """

    kind: ClassVar[str] = "monitor"

    def __repr__(self) -> str:
        return f"SavedMonitor({self.model.method}, level {self.info.get('level')})"


@dataclass(frozen=True, eq=False)
class Policy(Fitted):
    """A trained policy as plain data, plus the function that the learner's file makes of it.

    `step(seed, memory, obs) -> (action, memory)` is pure and batched; `act` is the everyday verb. A policy that looks
    back at its episode keeps that in the memory, which `begin` makes; to the others it is nothing.
    It takes no cost argument: a policy can never be fed the true cost at test time.
    """

    kind: ClassVar[str] = "policy"
    memory: Any = ()  # of one episode before its first step: nothing, an array, or a tuple or table of them
    step: Callable[[int, Any, Array], tuple[Array, Any]] | None = None
    revive: Callable[[Policy], Policy] | None = (
        None  # gives a policy that holds weights only its function back
    )

    def with_budget(self, budget: Budget) -> Policy:
        """The same networks for another budget: no training, another threshold.

        Only a learner whose threshold has no part in the training can do this; see `feasible`. Where no threshold is
        known to keep the budget, the one with the lowest bound is taken, and `info["kept"]` is False.
        """
        from rci.data.risk.thresholds import Ladder, choose_thresholds

        channels = tuple(self.info.get("channels", ()))
        choice = choose_thresholds(Ladder.from_table(self._ladder()), budget, channels)
        rates = {
            name: per_channel(getattr(choice, name).tolist(), channels) for name in ("estimate", "bound")
        }
        info = {
            "budget": str(parse_budget(budget)),
            "kept": choice.kept,
            "expected_violation": rates["estimate"],
            "violation_bound": rates["bound"],
        }
        return self._limited(choice.threshold, info)

    def with_threshold(self, threshold: float) -> Policy:
        """The same networks with a threshold of your own, for every channel; nothing is promised about a budget."""
        from rci.data.risk.thresholds import check_threshold

        self._ladder()
        number = check_threshold(threshold, self.model.config["config"]["head"] != "linear")
        budget_figures = {"budget", "kept", "expected_violation", "violation_bound"}
        rest = {name: value for name, value in self.info.items() if name not in budget_figures}
        size = self.model.arrays["hyper.threshold"].shape
        return replace(self, info=rest)._limited(np.full(size, number), {"budget": "none"})

    def at_rung(self, rung: int) -> Policy:
        """The same networks with one of the thresholds that a training comes with, counted from the strictest."""
        threshold = self._ladder()["threshold"]
        if not 0 <= rung < len(threshold):
            raise RciError(
                f"this policy has {len(threshold)} thresholds, 0 to {len(threshold) - 1}; got {rung}."
            )
        return self.with_threshold(math.inf if threshold[rung] is None else threshold[rung])

    def _ladder(self) -> dict[str, Any]:
        if "ladder" not in self.info:
            raise RciError(
                f"a policy of {self.model.method!r} was trained for its budget {self.info.get('budget')}; for another "
                "one it must be trained again. Those of 'feasible' need not."
            )
        ladder: dict[str, Any] = self.info["ladder"]
        return ladder

    def _limited(self, threshold: Array, info: dict[str, Any]) -> Policy:
        arrays = {**self.model.arrays, "hyper.threshold": np.asarray(threshold, np.float32)}
        text = [str(float(number)) for number in threshold]
        channels = tuple(self.info.get("channels", ()))
        changed = {**self.info, **info, "threshold": per_channel(text, channels)}
        policy = replace(self, model=self.model._replace(arrays=arrays), info=changed, step=None)
        return policy if self.revive is None else self.revive(policy)

    def begin(self, episodes: int) -> Any:
        """The memory of so many episodes that are about to begin, for `step`."""
        return _repeat(self.memory, episodes)

    def act(self, obs: ArrayLike, seed: int = 0) -> Array:
        """The action for one observation or a batch of them, [rows, ...]; same seed, same action.

        An observation has the shape that was recorded, or is one row of its features. A policy with a memory takes it
        for the first one of an episode; to go on from there, use `begin` and `step`.
        """
        obs = float32_numbers("observation", obs)
        features = int(self.info["obs_size"])
        shapes = ((features,), tuple(self.info.get("obs_shape", (features,))))
        batched = obs.shape[1:] in shapes and obs.ndim > 1
        if not batched and obs.shape not in shapes:
            labels = labels_in(self.info).get("obs", [])
            called = f" ({', '.join(labels)})" if labels else ""
            raise RciError(
                f"the policy expects observations of shape {shapes[-1]}{called}, one or a batch, got shape {obs.shape}."
            )
        if self.step is None:
            raise RciError("this policy holds weights only; read it with rci.load to act with it.")
        rows = obs.reshape(len(obs) if batched else 1, features)
        if len(rows) == 0:
            return np.zeros((0, int(self.info["action_size"])), np.float32)
        action, _ = self.step(check_seed(seed), self.begin(len(rows)), rows)
        return action if batched else action[0]

    def save(self, folder: Any) -> None:
        """Write the policy as an artefact folder that rci.load reads."""
        from rci.data.store import write

        write(folder, self)

    def __repr__(self) -> str:
        return f"Policy({self.model.method}, budget {self.info.get('budget')})"


def _saved_model(arrays: dict[str, Array], meta: dict[str, Any]) -> SavedModel:
    if not isinstance(meta["method"], str) or not isinstance(meta["config"], dict):
        raise RciError("a model has the name of a method and a table of settings.")
    return SavedModel(meta["method"], meta["config"], arrays)


def _repeat(memory: Any, count: int) -> Any:
    """Every array of a memory `count` times, along a new first axis."""
    if isinstance(memory, dict):
        return {name: _repeat(part, count) for name, part in memory.items()}
    if isinstance(memory, tuple):
        parts = [_repeat(part, count) for part in memory]
        return type(memory)(*parts) if hasattr(memory, "_fields") else tuple(parts)
    return np.repeat(np.asarray(memory)[None], count, axis=0)

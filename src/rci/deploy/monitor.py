"""A monitor beside a running policy: how likely is it that somebody would press STOP in this episode?

    monitor = rci.runtime.load_monitor("runs/demo/monitor")
    risk = monitor.step(obs, action)
    if monitor.alarm: ...

It is the model that was fitted to infer step costs: after every step it predicts what the whole episode will cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.labels import named_channels
from rci.data.artefacts.models import SavedModel, SavedMonitor
from rci.data.artefacts.signals import labels_in
from rci.data.errors import RciError, unknown_name
from rci.data.record import Array, fitting, float32_numbers
from rci.data.store import read
from rci.deploy.layers import part
from rci.deploy.scorers import SCORERS, Scorer


class Monitor:
    """Watches one episode at a time; `reset` begins the next one.

    A step takes the same time however long the episode is. Folds and members of an ensemble answer with their mean;
    with channels the highest risk counts.
    """

    def __init__(
        self,
        model: SavedModel,
        level: float | None = None,
        channels: tuple[str, ...] = (),
        info: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if model.method not in SCORERS:
            raise RciError(
                f"{model.method!r} predicts no episode from its beginning, so it cannot watch one. Those that do: "
                f"{', '.join(sorted(SCORERS))}."
            )
        if level is not None and not (isinstance(level, Real) and math.isfinite(level)):
            raise RciError(f"the level of an alarm must be a finite number, got {level!r}.")
        self.method, self.level, self.channels = model.method, level, channels
        self.info = dict(info)  # as it was saved; `signals` in it are the names of observations and actions
        self._scorer = SCORERS[model.method]
        self._sizes = {name: int(model.config[f"{name}_size"]) for name in ("obs", "action")}
        members, counted, folds = (range(model.config[name]) for name in ("members", "channels", "folds"))
        self._networks = [
            [self._scorer.make(_network(model, m, channel, f), model.config) for m in members for f in folds]
            for channel in counted
        ]
        self.reset()

    def reset(self) -> None:
        """Forget the episode: the next step is the first of another one."""
        self._states: list[list[Any]] = [[None] * len(own) for own in self._networks]
        self._total = np.zeros(len(self._networks))
        self._steps = 0
        self.alarm_step: int | None = None  # the step whose risk was the first over the level

    def step(self, obs: ArrayLike, action: ArrayLike, next_obs: ArrayLike | None = None) -> float:
        """What the episode is now expected to cost; where labels are 0 and 1, the chance that it will be stopped.

        next_obs: what the step led to; `potential` judges by it, the others do not look at it.
        """
        score = self.scores(obs, action, next_obs)
        self._total = self._total + score
        risk = float(_predicted(self._scorer, score, self._total).max())
        if self.level is not None and self.alarm_step is None and risk > self.level:
            self.alarm_step = self._steps
        self._steps += 1
        return risk

    def scores(self, obs: ArrayLike, action: ArrayLike, next_obs: ArrayLike | None = None) -> Array:
        """Take the step without looking at the level: what each channel's models say of it, [K]."""
        features = self._features(obs, action, next_obs)
        said = []
        for networks, states in zip(self._networks, self._states):
            answers = [network(state, features) for network, state in zip(networks, states)]
            states[:] = [state for _, state in answers]
            said.append(sum(answer for answer, _ in answers) / len(answers))
        return np.array(said)

    @property
    def alarm(self) -> bool:
        """Whether the risk has passed the level in this episode. It stays true until `reset`."""
        if self.level is None:
            raise RciError(
                "this monitor has no level to raise an alarm at; choose one on safe episodes with choose_level, and "
                "give it to load_monitor."
            )
        return self.alarm_step is not None

    def watch(self, obs: ArrayLike, action: ArrayLike) -> Array:
        """The risk after every step of a recorded episode: obs [T + 1, ...], action [T, ...] -> [T].

        It begins with `reset` and leaves the monitor where the episode ended.
        """
        self.reset()
        seen, done = np.asarray(obs), np.asarray(action)
        if seen.ndim == 0 or done.ndim == 0 or len(seen) != len(done) + 1:
            raise RciError(
                f"an episode has one observation more than actions, got shapes {seen.shape} and {done.shape}."
            )
        return np.array([self.step(seen[t], done[t], seen[t + 1]) for t in range(len(done))])

    def _features(self, obs: ArrayLike, action: ArrayLike, next_obs: ArrayLike | None) -> Array:
        if not self._scorer.ahead:
            return np.concatenate([self._row("obs", obs), self._row("action", action)])
        if next_obs is None:
            raise RciError(f"{self.method!r} judges a step by what it led to: give next_obs as well.")
        return self._row("obs", next_obs)

    def _row(self, name: str, value: ArrayLike) -> Array:
        given = float32_numbers(name, value)
        if given.size != self._sizes[name]:
            labels = labels_in(self.info).get(name, [])
            called = f" ({', '.join(labels)})" if labels else ""
            raise RciError(
                f"the monitor expects {self._sizes[name]} numbers as {name}{called}, got shape {given.shape}."
            )
        return given.reshape(-1)

    def __repr__(self) -> str:
        return f"Monitor({self.method}, level {self.level}, {self._steps} steps)"


def load_monitor(folder: str | Path, level: float | None = None, verify: bool = True) -> Monitor:
    """A monitor from the folder of a monitor or of step costs.

    level: where to raise the alarm; the folder of a monitor knows one, which this one overrides.
    """
    record = read(folder, verify=verify)
    if isinstance(record, StepCosts):
        record = monitor_record(record, level)
    if not isinstance(record, SavedMonitor):
        raise RciError(f"{folder} holds {record.kind!r}; a monitor is read from 'monitor' or 'costs'.")
    with fitting(str(folder)):
        chosen_level = record.info["level"] if level is None else level
        monitor = Monitor(record.model, chosen_level, tuple(record.info.get("channels", ())), record.info)
        sizes = (int(record.model.config[f"{name}_size"]) for name in ("obs", "action"))
        obs, action = (np.zeros(size, np.float32) for size in sizes)
        if not math.isfinite(monitor.step(obs, action, obs)):  # before somebody relies on it
            raise RciError(f"{folder} holds a monitor whose risk is not finite; fit it again.")
        monitor.reset()
    return monitor


def monitor_record(costs: StepCosts, level: float | None, **info: Any) -> SavedMonitor:
    """What was fitted for `costs` as a record of its own, to be saved and taken away.

    info: what is known about the level, such as the rate of false alarms that it was chosen for.
    """
    if costs.model is None:
        raise RciError(
            f"the step costs of {costs.method!r} come without a fitted model, so nothing can watch."
        )
    if "members" not in costs.model.config:
        raise RciError(
            "the models of these step costs are of an older version; redistribute again to use them."
        )
    networks = {name: array for name, array in costs.model.arrays.items() if ".network." in name}
    facts = {"level": level, "costs_hash": costs.hash, **named_channels(costs.channels), **info}
    monitor = SavedMonitor(costs.model._replace(arrays=networks), facts)
    Monitor(monitor.model, level, costs.channels)  # refuses what cannot watch
    return monitor


def risk_of(method: str, scores: Iterable[ArrayLike]) -> list[Array]:
    """The risk after each step of episodes, from what `rci.redistribution.score` says of them: [T] or [T, K] each."""
    if method not in SCORERS:
        raise unknown_name("monitor", method, SCORERS)
    columns = [np.asarray(score, np.float64).reshape(len(np.asarray(score)), -1) for score in scores]
    return [_predicted(SCORERS[method], own, own.cumsum(axis=0)).max(axis=-1) for own in columns]


def _predicted(scorer: Scorer, latest: Array, total: Array) -> Array:
    return latest if scorer.of_sum is None else scorer.of_sum(total)


def _network(model: SavedModel, member: int, channel: int, fold: int) -> dict[str, Array]:
    """The arrays of one fitted network, no longer memory-mapped."""
    found = part(model.arrays, f"{member}.{channel}.{fold}.network")
    return {name: np.array(array) for name, array in found.items()}

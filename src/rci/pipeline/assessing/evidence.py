"""What the page of an assessment shows, gathered from the artefacts of its jobs."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rci.data import store
from rci.data.record import Array
from rci.data.types import Episodes, Labels, Policy, StepCosts
from rci.evaluation.detection import RATES, detection_curve
from rci.pipeline.assessing.parts import run_key
from rci.pipeline.assessing.plan import PARTS, part_of
from rci.pipeline.monitor import held_out_risk
from rci.reporting.assessment.contents import Shown, Watching

SIGNALS = 4  # drawn of an episode
BINS = 10


class HeldOut:
    """The held-out runs with what the policy, the step costs and the monitor say of them."""

    def __init__(self, out: Path, policy: Policy) -> None:
        place = part_of(out, PARTS[-1])
        self.episodes: Episodes = store.read(place.episodes, "episodes")
        self.labels: Labels = store.read(place.labels, "labels")
        self.costs: StepCosts = store.read(out / "held-out-costs", "costs")
        fitted: StepCosts = store.read(out / "step-costs", "costs")
        self.risk = held_out_risk(fitted, self.episodes, self.labels)
        self.policy = policy
        self.kept = self.labels.kept_lengths

    def difference(self) -> Array:
        """[N]: how far the policy's actions are from the recorded ones, in their own spread, on average."""
        spread = np.asarray(self.episodes.action).std(axis=0) + 1e-9
        apart = [
            np.abs((self.actions[i] - self.recorded(i)) / spread).mean() for i in range(len(self.episodes))
        ]
        return np.array(apart)

    def recorded(self, i: int) -> Array:
        return np.asarray(self.episodes[i].action[: self.kept[i]]).reshape(self.kept[i], -1)

    @cached_property
    def actions(self) -> list[Array]:
        """[T, a] for each episode: what the policy does where the episode was. It remembers nothing of it."""
        seen = np.concatenate([np.asarray(e.obs[:n]) for e, n in zip(self.episodes, self.kept)])
        acted = self.policy.act(seen.reshape(len(seen), -1))  # all at once, which compiles once
        return np.split(acted.reshape(len(seen), -1), np.cumsum(self.kept)[:-1])

    def shown(self, i: int, numbers: list[int]) -> Shown:
        obs = np.asarray(self.episodes[i].obs[: self.kept[i] + 1])
        names = self.episodes.labels_of("obs")
        flat = obs.reshape(len(obs), -1)
        return Shown(
            name=self._name(i),
            obs=obs,
            signals={names[k]: flat[:, k] for k in numbers},
            recorded=self.recorded(i),
            policy=self.actions[i],
            cost=self._cost(i),
            risk=np.asarray(self.risk[i]),
            stopped=bool(self.labels.stopped[i]),
        )

    def telling_signals(self) -> list[int]:
        """The numbers of an observation that go most with the risk, in their order."""
        rows = np.concatenate(
            [
                np.asarray(e.obs[1 : n + 1], np.float64).reshape(n, -1)
                for e, n in zip(self.episodes, self.kept)
            ]
        )
        risk = np.concatenate(self.risk)
        centred, about = rows - rows.mean(axis=0), risk - risk.mean()
        scale = np.sqrt((centred**2).sum(axis=0) * (about**2).sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            together = np.where(scale > 0, np.abs(centred.T @ about) / scale, 0.0)
        return sorted(np.argsort(-together, kind="stable")[:SIGNALS].tolist())

    def most_different(self, count: int) -> list[int]:
        """Episodes in which the policy would have acted otherwise, the largest difference first."""
        return np.argsort(-self.difference(), kind="stable")[:count].tolist()

    def stopped_ones(self, count: int) -> list[int]:
        """Stopped episodes, spread over their lengths."""
        stopped = np.flatnonzero(self.labels.stopped)
        stopped = stopped[np.argsort(self.kept[stopped], kind="stable")]
        positions = np.linspace(0, len(stopped) - 1, min(count, len(stopped)) + 2)[1:-1]
        return list(dict.fromkeys(stopped[np.round(positions).astype(int)].tolist()))

    def _cost(self, i: int) -> Array:
        return np.asarray(np.split(self.costs.total, self.costs.step_offset[1:-1])[i])

    def _name(self, i: int) -> str:
        key = run_key(self.episodes)
        return f"held-out run {i}" if key is None else f"run {self.episodes.keys[key][i]}"


def watching(out: Path, held: HeldOut) -> Watching:
    """The monitor on the held-out runs, at levels that are chosen on those kept for choosing."""
    monitor = store.read(out / "monitor", "monitor")
    fitted: StepCosts = store.read(out / "step-costs", "costs")
    place = part_of(out, "selection")
    episodes, labels = store.read(place.episodes, "episodes"), store.read(place.labels, "labels")
    risk = held_out_risk(fitted, episodes, labels)
    safe = [one for one, stopped in zip(risk, labels.stopped) if not stopped]
    rates = [rate for rate in RATES if rate * (len(safe) + 1) >= 1]
    curve = detection_curve(safe, held.risk, held.labels.stop_index, rates) if rates else []
    bins, error = calibration(held) if fitted.unit == "cost" else ([], None)
    return Watching(
        method=fitted.method,
        level=float(monitor.info["level"]),
        false_alarm_rate=float(monitor.info["false_alarm_rate"]),
        rows=[{"method": fitted.method, **one._asdict()} for one in curve],
        calibration=bins,
        calibration_error=error,
    )


def calibration(held: HeldOut) -> tuple[list[list[float]], float]:
    """Of the steps at which the monitor expects so much, how many episodes were stopped; and the mean gap."""
    predicted = np.clip(np.concatenate(held.risk), 0.0, 1.0)
    outcome = np.repeat(held.labels.channel_cost.max(axis=1), held.kept)
    group = np.minimum((predicted * BINS).astype(int), BINS - 1)
    rows = [
        [float(predicted[group == b].mean()), float(outcome[group == b].mean()), int((group == b).sum())]
        for b in np.unique(group)
    ]
    return rows, sum(count * abs(said - seen) for said, seen, count in rows) / len(predicted)


def facts_of(episodes: Episodes, labels: Labels, runs: int) -> dict[str, str]:
    """The logs in a few numbers, by their names."""
    steps = int(labels.kept_lengths.sum())
    rate = None if episodes.signals is None else episodes.signals.rate
    lasted = {} if rate is None else {"hours recorded": f"{steps / rate / 3600:.1f}"}
    return {
        "runs": f"{runs:,}",
        **({} if runs == len(episodes) else {"episodes": f"{len(episodes):,}"}),
        "stopped": f"{int(labels.stopped.sum()):,}",
        "steps until the stop or the end": f"{steps:,}",
        **lasted,
        "signals": f"{int(np.prod(episodes.obs.shape[1:]))}",
        "actions": f"{int(np.prod(episodes.action.shape[1:]))}",
    }


def notes_of(labels: Path) -> list[str]:
    """What was decided at the import where the logs are silent."""
    config: dict[str, Any] = store.read_manifest(labels)["provenance"].get("config", {})
    return [str(note) for note in config.get("notes", [])]

"""How often a policy will be stopped and what it will earn, from logs alone, with intervals that hold the truth.

Methods that fail in different ways are asked, and where they disagree the interval is wide; see `combination.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rci.data.errors import RciError
from rci.data.estimates import Interval, PolicyEstimate, Support
from rci.data.models import Policy
from rci.data.options import build_parts, require_positive
from rci.data.record import Array, expect
from rci.data.shares import clopper_pearson
from rci.data.types import Episodes, Labels, Transitions
from rci.learning.behaviour import Config as BehaviourConfig
from rci.learning.behaviour import no_costs, rows_of_obs
from rci.learning.dataset import Dataset, Scaling, measure_scaling, to_device
from rci.learning.judging.combination import Opinion, angle, combined, interval, normal_quantile, widened
from rci.learning.judging.support import Recorded, measure_recorded, shares_outside
from rci.learning.judging.trials import Trial, Worlds, fit_worlds, limit_hazards, try_policy
from rci.learning.judging.world import Settings as WorldSettings

Progress = Callable[[float], None]
FITTING_SHARE = 0.7  # of the time
MODEL_ERROR = 0.1  # of models of the world, as an angle: what none of them knows
STEPS, FEWEST, MOST = 9_600, 32, 200  # of a trial, as in `calibration.py`


@dataclass(frozen=True)
class Settings:
    """How much is asked of the logs."""

    models: int = 3  # of the world
    model_updates: int = 4_000
    hidden: int = 128

    def __post_init__(self) -> None:
        require_positive(self, "models", "model_updates", "hidden")


@dataclass(frozen=True)
class Evidence:
    """What logs say before they are asked about a policy; the same for all policies."""

    data: Dataset
    scaling: Scaling
    worlds: Worlds
    recorded: Recorded
    lengths: Array
    stopped: Array
    earned: Array  # of each episode, until its stop or its end
    settings: Settings
    seed: int


def estimate(
    policy: Policy,
    episodes: Episodes,
    labels: Labels,
    held_out: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.9,
    progress: Progress = lambda share: None,
    **settings: Any,
) -> PolicyEstimate:
    """How often the policy will be stopped and what it will earn, with intervals, from logs alone.

    held_out: which episodes the policy did not learn from, [N]; trials begin as these do. All if not given.
    level: how often the intervals are to hold the truth. settings: see Settings.
    """
    return estimate_all([policy], episodes, labels, held_out, seed, level, progress, **settings)[0]


def estimate_all(
    policies: Sequence[Policy],
    episodes: Episodes,
    labels: Labels,
    held_out: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.9,
    progress: Progress = lambda share: None,
    **settings: Any,
) -> list[PolicyEstimate]:
    """The same for several policies; what does not depend on the policy is fitted once."""
    for policy in policies:
        _check_policy(policy, episodes)
    apart = _check_held_out(held_out, len(episodes))
    evidence = gather(episodes, labels, seed, lambda share: progress(FITTING_SHARE * share), **settings)
    estimates = []
    for number, policy in enumerate(policies):
        estimates.append(estimate_from(policy, evidence, apart, level))
        progress(FITTING_SHARE + (1 - FITTING_SHARE) * (number + 1) / len(policies))
    return estimates


def gather(
    episodes: Episodes,
    labels: Labels,
    seed: int = 0,
    progress: Progress = lambda share: None,
    **settings: Any,
) -> Evidence:
    """What the logs say, whatever the policy: models of the world, and what is usual in them."""
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    (chosen,) = build_parts((Settings,), settings, "estimating")
    _check_logs(episodes, labels)
    transitions = Transitions.build(episodes, labels, no_costs(labels))
    rows = rows_of_obs(BehaviourConfig(), episodes.obs.shape[1:])
    scaling = measure_scaling(transitions, rows)
    data, lengths = to_device(transitions, scaling), transitions.lengths
    limits = limit_hazards(lengths, ~(labels.stopped | episodes.terminated))
    world = WorldSettings(updates=chosen.model_updates, hidden=chosen.hidden)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    return Evidence(
        data=data,
        scaling=scaling,
        worlds=fit_worlds(data, lengths, limits, rows, chosen.models, seed, world, progress),
        recorded=measure_recorded(
            np.asarray(data.obs)[np.asarray(data.row)], np.asarray(data.action), episode, seed
        ),
        lengths=lengths,
        stopped=labels.stopped,
        earned=np.bincount(episode, weights=np.asarray(transitions.reward, np.float64)),
        settings=chosen,
        seed=seed,
    )


def estimate_from(policy: Policy, evidence: Evidence, held_out: Array, level: float = 0.9) -> PolicyEstimate:
    """The estimate of a policy from what was gathered."""
    trial = _trial(policy, evidence, held_out)
    outside = shares_outside(
        evidence.recorded,
        trial.obs.reshape(-1, trial.obs.shape[-1]),
        trial.action.reshape(-1, trial.action.shape[-1]),
        trial.running.ravel(),
        evidence.seed,
    )
    opinions = {"models": widened(opinion_of_models(trial.stop), MODEL_ERROR)}
    stopped, count = int(evidence.stopped.sum()), len(evidence.stopped)
    return PolicyEstimate(
        stop=interval(combined(opinions), level),
        earned=mean_interval(trial.earned, level),
        methods={name: interval(each, level) for name, each in opinions.items()},
        support=Support(*outside, effective_episodes=0.0),
        logged_stop=Interval(stopped / count, *clopper_pearson(stopped, count, level)),
        logged_earned=mean_interval(evidence.earned[None], level),
        episodes=count,
        level=level,
    )


def opinion_of_models(stop: Array) -> Opinion:
    """What models of the world say, [M, E]: errors of as many episodes as were tried, and of models that disagree.

    Every model saw its own draw of the logs, so that their differences are those of a bootstrap by episode.
    """
    models, episodes = stop.shape
    each = angle(stop.mean(axis=1))
    between = float(each.std(ddof=1)) if models > 1 else 0.0
    return Opinion(float(angle(stop.mean())), float(np.hypot(between, 0.5 / np.sqrt(episodes))))


def mean_interval(values: Array, level: float) -> Interval:
    """A mean of [M, E] numbers, M models of E episodes, and what it lies between."""
    models, count = values.shape
    mean, error = float(values.mean()), float(values.mean(axis=0).std()) / np.sqrt(count)
    between = float(values.mean(axis=1).std(ddof=1)) if models > 1 else 0.0
    reach = normal_quantile(level) * float(np.hypot(error, between))
    return Interval(mean, mean - reach, mean + reach)


def _trial(policy: Policy, evidence: Evidence, held_out: Array) -> Trial:
    count = min(MOST, max(FEWEST, STEPS // len(evidence.worlds.limits)))
    rng = np.random.default_rng([evidence.seed, 2])
    rows = np.asarray(evidence.data.initial)[rng.choice(np.flatnonzero(held_out), count)]
    return try_policy(
        policy, evidence.worlds, evidence.scaling, np.asarray(evidence.data.obs)[rows], evidence.seed
    )


def _check_logs(episodes: Episodes, labels: Labels) -> None:
    labels.check_parent(episodes)
    if not np.issubdtype(episodes.action.dtype, np.floating):
        raise RciError(
            f"the actions are {episodes.action.dtype}, but policies are estimated for continuous ones; if yours are "
            "quantities, convert them to float32."
        )
    if len(episodes) < 2:
        raise RciError(
            "there is one episode, and from one nothing can be said of the next; an estimate needs at least two, and "
            "hundreds to mean something."
        )


def _check_policy(policy: Policy, episodes: Episodes) -> None:
    expect(Policy, policy=policy)
    if policy.step is None:
        raise RciError("this policy holds weights only; read it with rci.load to estimate it.")
    for what, size, array in (
        ("observations", "obs_size", episodes.obs),
        ("actions", "action_size", episodes.action),
    ):
        recorded = int(np.prod(array.shape[1:]))
        if int(policy.info[size]) != recorded:
            raise RciError(
                f"the policy knows {what} of {policy.info[size]} features, but those of the logs have {recorded}."
            )


def _check_held_out(held_out: ArrayLike | None, episodes: int) -> Array:
    if held_out is None:
        return np.ones(episodes, bool)
    flags = np.asarray(held_out)
    if flags.shape != (episodes,) or flags.dtype != np.bool_ or not flags.any():
        raise RciError(
            f"held_out must be one true/false flag for each of the {episodes} episodes, at least one of them true, "
            f"got {flags.dtype} of shape {flags.shape}."
        )
    return flags

"""How often a policy will be stopped and what it will earn, from logs alone, with intervals that hold the truth.

Methods that fail in different ways are asked, and where they disagree the interval is wide; see `combination.py`.

models      the policy is tried in models of the world, which err where they are driven off the data (`trials.py`)
chances     fitted-Q evaluation of the stop, which errs by bootstrapping from its own guesses (`hazard.py`)
weighted    recorded episodes weighed by how the policy would have acted, of which few may count (`importance.py`)
robust      the second corrected by the third
agreeing    the episodes that the policy agrees with, as they are: it may agree with those that went well

The last three say nothing where fewer than 10 episodes count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from rci.data.errors import RciError
from rci.data.estimates import Interval, PolicyEstimate, Support
from rci.data.models import Behaviour, Policy
from rci.data.options import build_parts, require_positive
from rci.data.record import Array, expect
from rci.data.shares import clopper_pearson
from rci.data.types import Episodes, Labels, Transitions
from rci.learning.behaviour import Config as BehaviourConfig
from rci.learning.behaviour import (
    FrozenBehaviour,
    fit_behaviour,
    no_costs,
    restore_behaviour,
    rows_of_obs,
)
from rci.learning.dataset import Dataset, Scaling, flat_features, measure_scaling, to_device
from rci.learning.judging.combination import Opinion, angle, combined, interval, normal_quantile, widened
from rci.learning.judging.fqe import policy_actions
from rci.learning.judging.hazard import Settings as HazardSettings
from rci.learning.judging.hazard import Steps, fit_chances, steps_of
from rci.learning.judging.importance import (
    agreeing,
    cumulative_weights,
    effective_count,
    log_ratio,
    padded,
    weigh,
)
from rci.learning.judging.support import Recorded, measure_recorded, shares_outside
from rci.learning.judging.trials import Trial, Worlds, fit_worlds, limit_hazards, try_policy
from rci.learning.judging.world import Settings as WorldSettings

Progress = Callable[[float], None]
FITTING_SHARE = 0.7  # of the time
STEPS, FEWEST, MOST = 9_600, 32, 200  # of a trial, as in `calibration.py`
FEW = 10  # episodes: of fewer nothing is concluded
# What each method gets wrong whatever the logs, as an angle; see docs/trust.md for how they were found.
METHOD_ERROR = {"models": 0.1, "chances": 0.2, "weighted": 0.2, "robust": 0.2, "agreeing": 0.2}


@dataclass(frozen=True)
class Settings:
    """How much is asked of the logs."""

    models: int = 3  # of the world
    model_updates: int = 4_000
    hidden: int = 128  # of models
    members: int = 3  # critics
    updates: int = 3_000  # of critics
    behaviour_updates: int = 3_000  # where no behaviour model is given

    def __post_init__(self) -> None:
        require_positive(self, "models", "model_updates", "hidden", "members", "updates", "behaviour_updates")


@dataclass(frozen=True)
class Evidence:
    """What logs say before they are asked about a policy; the same for all policies."""

    data: Dataset
    scaling: Scaling
    worlds: Worlds
    recorded: Recorded
    steps: Steps
    log_behaviour: Array | None  # of recorded actions; None where the behaviour model has no density
    obs: Array  # as recorded
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
    behaviour: Behaviour | None = None,
    **settings: Any,
) -> PolicyEstimate:
    """How often the policy will be stopped and what it will earn, with intervals, from logs alone.

    held_out: which episodes the policy did not learn from, [N]; trials begin as these do. All if not given.
    level: how often the intervals are to hold the truth. behaviour: a model fitted to these labels, as for `learn`.
    settings: see Settings.
    """
    return estimate_all([policy], episodes, labels, held_out, seed, level, progress, behaviour, **settings)[0]


def estimate_all(
    policies: Sequence[Policy],
    episodes: Episodes,
    labels: Labels,
    held_out: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.9,
    progress: Progress = lambda share: None,
    behaviour: Behaviour | None = None,
    **settings: Any,
) -> list[PolicyEstimate]:
    """The same for several policies; what does not depend on the policy is fitted once."""
    for policy in policies:
        _check_policy(policy, episodes)
    apart = _check_held_out(held_out, len(episodes))
    fitting, judging = _parts(progress)
    evidence = gather(episodes, labels, seed, fitting, behaviour, **settings)
    estimates = []
    for number, policy in enumerate(policies):
        estimates.append(estimate_from(policy, evidence, apart, level))
        judging((number + 1) / len(policies))
    return estimates


def gather(
    episodes: Episodes,
    labels: Labels,
    seed: int = 0,
    progress: Progress = lambda share: None,
    behaviour: Behaviour | None = None,
    **settings: Any,
) -> Evidence:
    """What the logs say, whatever the policy: models of the world and of the behaviour, and what is usual in them."""
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    (chosen,) = build_parts((Settings,), settings, "estimating")
    _check_logs(episodes, labels)
    if behaviour is None:
        config = BehaviourConfig(updates=chosen.behaviour_updates, proposals=0)
        behaviour = fit_behaviour(episodes, labels, seed, config)
    elif behaviour.info["labels_hash"] != labels.hash:
        raise RciError("the behaviour model was fitted to other labels; fit it again with fit_behaviour.")
    transitions = Transitions.build(episodes, labels, no_costs(labels))
    frozen, rows = restore_behaviour(behaviour), rows_of_obs(BehaviourConfig(), episodes.obs.shape[1:])
    scaling = measure_scaling(transitions, rows)
    data, lengths = to_device(transitions, scaling), transitions.lengths
    limits = limit_hazards(lengths, ~(labels.stopped | episodes.terminated))
    world = WorldSettings(updates=chosen.model_updates, hidden=chosen.hidden)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    seen, done = np.asarray(data.obs)[np.asarray(data.row)], np.asarray(data.action)
    return Evidence(
        data=data,
        scaling=scaling,
        worlds=fit_worlds(data, lengths, limits, rows, chosen.models, seed, world, progress),
        recorded=measure_recorded(seen, done, episode, seed),
        steps=steps_of(data, lengths, len(limits)),
        log_behaviour=_log_behaviour(frozen, transitions),
        obs=flat_features(transitions.obs[transitions.seen]),
        lengths=lengths,
        stopped=labels.stopped,
        earned=np.bincount(episode, weights=np.asarray(transitions.reward, np.float64)),
        settings=chosen,
        seed=seed,
    )


def estimate_from(policy: Policy, evidence: Evidence, held_out: Array, level: float = 0.9) -> PolicyEstimate:
    """The estimate of a policy from what was gathered."""
    return concluded(look_at(policy, evidence, held_out, level), level)


class Findings(NamedTuple):
    """What was found about a policy, before anything is concluded."""

    opinions: dict[str, Opinion]  # by method, with their own errors alone
    support: Support
    earned: Interval
    logged_earned: Interval
    stopped: int  # of the logged episodes
    episodes: int


def look_at(policy: Policy, evidence: Evidence, held_out: Array, level: float) -> Findings:
    """Ask every method."""
    trial = _trial(policy, evidence, held_out)
    outside = shares_outside(
        evidence.recorded,
        trial.obs.reshape(-1, trial.obs.shape[-1]),
        trial.action.reshape(-1, trial.action.shape[-1]),
        trial.running.ravel(),
        evidence.seed,
    )
    recorded, counted = _opinions_of_recorded(policy, evidence, held_out)
    return Findings(
        {"models": opinion_of_models(trial.stop), **recorded},
        Support(*outside, effective_episodes=counted),
        mean_interval(trial.earned, level),
        mean_interval(evidence.earned[None], level),
        int(evidence.stopped.sum()),
        len(evidence.stopped),
    )


def concluded(findings: Findings, level: float) -> PolicyEstimate:
    """One interval from all opinions, each widened by what its method gets wrong whatever the logs."""
    opinions = {name: widened(each, METHOD_ERROR[name]) for name, each in findings.opinions.items()}
    methods = {name: interval(each, level) for name, each in opinions.items()}
    silent = {name: Interval(0.5, 0.0, 1.0) for name in METHOD_ERROR if name not in methods}
    share = findings.stopped / findings.episodes
    return PolicyEstimate(
        stop=interval(combined(opinions), level),
        earned=findings.earned,
        methods={**methods, **silent},
        support=findings.support,
        logged_stop=Interval(share, *clopper_pearson(findings.stopped, findings.episodes, level)),
        logged_earned=findings.logged_earned,
        episodes=findings.episodes,
        level=level,
    )


def _opinions_of_recorded(
    policy: Policy, evidence: Evidence, held_out: Array
) -> tuple[dict[str, Opinion], float]:
    """What the methods say that look at recorded steps, and how many episodes count when they are weighed."""
    lengths, data, chosen = evidence.lengths, evidence.data, evidence.settings
    action = evidence.scaling.encode_action(jnp.asarray(policy_actions(policy, evidence.obs, lengths + 1)))
    at = np.asarray(data.row)
    fqe = HazardSettings(updates=chosen.updates)
    after, ahead = fit_chances(evidence.steps, action, lengths, chosen.members, evidence.seed, fqe)
    initial = np.asarray(data.initial)
    means = angle(ahead[:, initial[held_out]].mean(axis=1))
    opinions = {"chances": Opinion(float(means.mean()), _deviation(means))}
    policy_action, done = np.asarray(action, np.float64)[at], np.asarray(data.action, np.float64)
    agree = agreeing(done, policy_action, lengths)
    if (count := int(agree.sum())) >= FEW:
        share = evidence.stopped[agree].mean()
        opinions["agreeing"] = Opinion(float(angle(share)), 0.5 / count**0.5)
    if evidence.log_behaviour is None:
        return opinions, 0.0
    weights = cumulative_weights(padded(log_ratio(done, policy_action, evidence.log_behaviour), lengths))
    effective = effective_count(weights[:, -1])
    if effective >= FEW:
        stopped, on = np.asarray(data.stopped, np.float64), 1.0 - np.asarray(data.last, np.float64)
        value = ahead.mean(axis=0)
        error = stopped + on * value[at + 1] - after.mean(axis=0)
        rng = np.random.default_rng([evidence.seed, 4])
        each = weigh(weights, padded(stopped, lengths), padded(error, lengths), value[initial], rng)
        for name, found in zip(("weighted", "robust"), each):
            own = float(np.hypot(_deviation(angle(found.resampled)), 0.5 / effective**0.5))
            opinions[name] = Opinion(float(angle(found.estimate)), own)
    return opinions, effective


def _deviation(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _log_behaviour(frozen: FrozenBehaviour, transitions: Transitions) -> Array | None:
    """Of recorded actions, [N], in the networks' own scale; None where the model has no density."""
    obs = frozen.scaling.obs(jnp.asarray(flat_features(transitions.obs[transitions.row])))
    action = frozen.scaling.encode_action(jnp.asarray(flat_features(transitions.action)))
    density = frozen.log_prob(obs, action[:, None])
    return None if density is None else np.asarray(density[:, 0], np.float64)


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


def _parts(progress: Progress) -> tuple[Progress, Progress]:
    """The parts of the time that take the fits and the policies."""
    return (
        lambda share: progress(FITTING_SHARE * share),
        lambda share: progress(FITTING_SHARE + (1 - FITTING_SHARE) * share),
    )


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

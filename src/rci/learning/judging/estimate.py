"""How often a policy will be stopped and what it will earn, from logs alone, with intervals that hold the truth.

Methods that fail in different ways are asked, and where they disagree the interval is wide; see `combination.py`.

models      the policy is tried in models of the world, which err where they are driven off the data (`trials.py`)
chances     fitted-Q evaluation of the stop, which errs by bootstrapping from its own guesses (`hazard.py`)
weighted    recorded episodes weighed by how the policy would have acted, of which few may count (`importance.py`)
robust      the second corrected by the third
agreeing    the episodes that the policy agrees with, as they are: it may agree with those that went well

The last three say nothing where fewer than 10 episodes count. The first two are checked by a control: they are asked
about a copy of the behaviour that recorded the logs. By how much one of them is farther from what the logs show than
the other is held against it; where both are far alike, it is the copy that differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.models import Behaviour, Policy
from rci.data.errors import RciError
from rci.data.record import Array, expect
from rci.data.risk.estimates import Interval, PolicyEstimate, Support
from rci.data.risk.shares import check_confidence, clopper_pearson
from rci.data.types import Episodes, Labels
from rci.learning.judging.combination import (
    Opinion,
    checked,
    combined,
    interval,
    normal_quantile,
    one_sided,
    unshared,
    widened,
)
from rci.learning.judging.evidence import Evidence, Progress, evidence_of
from rci.learning.judging.opinions import biases_of, opinion_of_models, opinions_of_recorded, run_trial
from rci.learning.judging.support import shares_outside

FITTING_SHARE = 0.7  # of the time
# What each method gets wrong whatever the logs, as an angle; see docs/trust.md for how they were found.
METHOD_ERROR = {"models": 0.12, "chances": 0.2, "weighted": 0.2, "robust": 0.2, "agreeing": 0.3}
OUTSIDE_ERROR = 0.3  # of methods that learn from steps, where all of the policy's are outside of the data


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
    check_confidence(level)
    expect(Episodes, episodes=episodes)
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
    """What the logs say, whatever the policy, and what methods get wrong about the behaviour that recorded them."""
    evidence = evidence_of(episodes, labels, seed, progress, behaviour, **settings)
    return replace(evidence, bias=biases_of(evidence))


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
    bias: Mapping[str, float]  # of methods; see Evidence


def look_at(policy: Policy, evidence: Evidence, held_out: Array, level: float) -> Findings:
    """Ask every method."""
    trial = run_trial(policy, evidence, held_out)
    outside = shares_outside(
        evidence.recorded,
        trial.obs.reshape(-1, trial.obs.shape[-1]),
        trial.action.reshape(-1, trial.action.shape[-1]),
        trial.running.ravel(),
        evidence.seed,
    )
    recorded, counted = opinions_of_recorded(policy, evidence, held_out)
    return Findings(
        {"models": opinion_of_models(trial.stop), **recorded},
        Support(*outside, effective_episodes=counted),
        mean_interval(trial.earned, level),
        mean_interval(evidence.earned[None], level),
        int(evidence.stopped.sum()),
        len(evidence.stopped),
        evidence.bias,
    )


def concluded(findings: Findings, level: float) -> PolicyEstimate:
    """One interval from all opinions, each widened by what its method gets wrong whatever the logs."""
    opinions = {name: widened(each, METHOD_ERROR[name]) for name, each in findings.opinions.items()}
    for name, bias in unshared(findings.bias).items():
        off_data = OUTSIDE_ERROR * findings.support.outside
        opinions[name] = checked(widened(opinions[name], off_data), bias)
    methods = {name: interval(each, level) for name, each in opinions.items()}
    silent = {name: Interval(0.5, 0.0, 1.0) for name in METHOD_ERROR if name not in methods}
    share = findings.stopped / findings.episodes
    together = combined(opinions)
    at_least, at_most = one_sided(together, level)
    return PolicyEstimate(
        stop=interval(together, level),
        earned=findings.earned,
        methods={**methods, **silent},
        support=findings.support,
        logged_stop=Interval(share, *clopper_pearson(findings.stopped, findings.episodes, level)),
        logged_earned=findings.logged_earned,
        episodes=findings.episodes,
        level=level,
        at_least=at_least,
        at_most=at_most,
    )


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

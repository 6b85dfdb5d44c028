"""What each method says of the chance of a stop under a policy, with its own error, from what logs say."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from rci.data.artefacts.models import Policy
from rci.data.record import Array
from rci.learning.judging.actions import policy_actions
from rci.learning.judging.combination import Opinion, angle
from rci.learning.judging.evidence import Evidence, behaviour_policy
from rci.learning.judging.hazard import Settings as HazardSettings
from rci.learning.judging.hazard import fit_chances
from rci.learning.judging.importance import (
    agreeing,
    cumulative_weights,
    effective_count,
    log_ratio,
    padded,
    weigh,
)
from rci.learning.judging.simulation.trials import Trial, try_policy

STEPS, FEWEST, MOST = 9_600, 32, 200  # of a trial, as in `calibration.py`
FEW = 10  # episodes: of fewer nothing is concluded


def run_trial(policy: Policy, evidence: Evidence, held_out: Array) -> Trial:
    """The policy tried in models of the world, from first observations of held-out episodes on."""
    count = min(MOST, max(FEWEST, STEPS // len(evidence.worlds.limits)))
    rng = np.random.default_rng([evidence.seed, 2])
    rows = np.asarray(evidence.data.initial)[rng.choice(np.flatnonzero(held_out), count)]
    return try_policy(
        policy, evidence.worlds, evidence.scaling, np.asarray(evidence.data.obs)[rows], evidence.seed
    )


def opinion_of_models(stop: Array) -> Opinion:
    """What models of the world say, [M, E]: errors of as many episodes as were tried, and of models that disagree.

    Every model saw its own draw of the logs, so that their differences are those of a bootstrap by episode.
    """
    models, episodes = stop.shape
    each = angle(stop.mean(axis=1))
    between = float(each.std(ddof=1)) if models > 1 else 0.0
    return Opinion(float(angle(stop.mean())), float(np.hypot(between, 0.5 / np.sqrt(episodes))))


def opinions_of_recorded(
    policy: Policy, evidence: Evidence, held_out: Array
) -> tuple[dict[str, Opinion], float]:
    """What the methods say that look at recorded steps, and how many episodes count when they are weighed."""
    lengths, data, chosen = evidence.lengths, evidence.data, evidence.settings
    action = evidence.scaling.encode_action(jnp.asarray(policy_actions(policy, evidence.obs, lengths + 1)))
    at = np.asarray(data.row)
    fqe = HazardSettings(updates=chosen.updates)
    after, ahead = fit_chances(
        evidence.steps, np.asarray(action), lengths, chosen.members, evidence.seed, fqe
    )
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


def biases_of(evidence: Evidence) -> dict[str, float]:
    """How far each method is from what the logs show, as an angle."""
    control = behaviour_policy(evidence.behaviour)
    everybody = np.ones(len(evidence.lengths), bool)
    truth = float(angle(evidence.stopped.mean()))
    recorded, _ = opinions_of_recorded(control, evidence, everybody)
    opinions = {"models": opinion_of_models(run_trial(control, evidence, everybody).stop), **recorded}
    return {name: opinions[name].angle - truth for name in ("models", "chances")}

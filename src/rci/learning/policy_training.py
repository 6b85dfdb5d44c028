"""A policy from logs: check that they can be learned from, train, and measure what came of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.data.artefacts.labels import named_channels, per_channel
from rci.data.artefacts.models import Behaviour, Policy, SavedModel
from rci.data.artefacts.signals import named_signals
from rci.data.errors import RciError
from rci.data.record import Array, expect
from rci.data.risk.budgets import Budget, Limit, limits, parse_budget, refuse_percentiles
from rci.data.types import Episodes, Labels, StepCosts, Transitions
from rci.learning.behaviour import FrozenBehaviour, episodes_apart, fit_behaviour, restore_behaviour
from rci.learning.budget import audited, kept_budget, threshold
from rci.learning.checkpoint import Keeper
from rci.learning.dataset import Dataset, measure_scaling, to_device, transitions_of
from rci.learning.demonstrations import (
    Emphasis,
    check_demonstrations,
    emphasis_of,
    named_demonstrations,
    pools_for,
    refuse_useless,
    with_demonstrations,
)
from rci.learning.judging.simulation.calibration import calibrate
from rci.learning.judging.simulation.world import Settings as WorldSettings
from rci.learning.learners import LEARNERS, parse_options, refuse_few_proposals, refuse_unweighed
from rci.learning.policy_functions import compiled, restore_policy
from rci.learning.train import train
from rci.nets.arrays import to_arrays

TRAINING_SHARE = 0.4  # of the time, where thresholds are tried after the training
DISCOUNT = 0.99  # of the costs that a percentile is of, where a method has no discount of its own
Progress = Callable[[float], None]


def learn(
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
    method: str = "feasible",
    budget: Budget = 0.05,
    seed: int = 0,
    behaviour: Behaviour | None = None,
    progress: Callable[[float], None] = lambda share: None,
    checkpoint: str | Path | None = None,
    beyond: bool = False,
    demonstrations: Episodes | None = None,
    **options: Any,
) -> Policy:
    """A policy for `budget`: the allowed probability of a violation, `inf`, or a percentile such as "P30".

    With several channels of cost it holds for each of them, or is by channel: {"proximity": 0.05, "road": "P20"}, also
    written "proximity=0.05,road=P20".

    behaviour: a fitted behaviour model of these labels, from `fit_behaviour`; fitted on the spot if not given and the
    method uses one.
    checkpoint: a folder where the training is kept every `checkpoint_every` updates. If the process dies, the same call
    goes on from there and ends in the same policy, bit for bit. Remove the folder once the policy is saved.
    beyond: keep the last update there as well, so that a call with more `updates` goes on from it: the policies after
    4,000 and after 8,000 updates then take 8,000 updates, not 12,000.
    demonstrations: what a person drove after taking over, from `rci.data.segments.cut`, for learners that weigh steps
    (see `rci.learning.demonstrations`). A behaviour model that is given must have been fitted with the same ones.
    options: settings of the method (see its Config and Hyper), `updates` and `checkpoint_every`.
    """
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    expect(StepCosts, costs=costs)
    config, hyper, schedule = parse_options(method, options)
    budget = parse_budget(budget)
    refuse_useless(list(options), demonstrations)
    taught = Taught(demonstrations, emphasis_of(schedule))
    setup = _set_up(method, config, hyper, budget, seed, episodes, labels, costs, behaviour, taught)
    keeper = _keeper(checkpoint, schedule.checkpoint_every, setup, method, budget, seed, costs, beyond)
    training, trying = _parts(progress, 1.0 if setup.apart is None else TRAINING_SHARE)
    make, updates = LEARNERS[method].make, schedule.updates
    state, history = train(
        make, *setup[:2], setup.data, setup.frozen, updates, seed, training, costs.channels, keeper
    )
    actor = make(setup.config).policy(state, setup.frozen, setup.hyper)
    info = {
        "budget": str(budget),
        "seed": seed,
        "updates": updates,
        "history": history,
        "obs_shape": list(episodes.obs.shape[1:]),
        **named_signals(episodes.signals),
        **_facts(setup, costs),
        **_estimates(method, setup, state, actor, history, costs.channels),
        **setup.taught.named(),
    }
    policy = _policy_of(method, setup, actor, info)
    return policy if setup.apart is None else _with_ladder(policy, setup, actor, seed, trying, budget)


class Taught(NamedTuple):
    """What a person drove, and how often which steps are drawn."""

    demonstrations: Episodes | None
    emphasis: Emphasis

    def named(self) -> dict[str, Any]:
        """What a manifest says of it."""
        return named_demonstrations(self.demonstrations, self.emphasis)


class Setup(NamedTuple):
    """What a training begins with."""

    config: Any
    hyper: Any
    data: Dataset
    frozen: FrozenBehaviour
    behaviour: Behaviour | None
    lengths: Array  # of the episodes
    apart: (
        Array | None
    )  # the episodes by which thresholds are tried; None where they are part of the training
    logged: Transitions  # without demonstrations
    taught: Taught


def _set_up(
    method: str,
    config: Any,
    hyper: Any,
    budget: Budget,
    seed: int,
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
    behaviour: Behaviour | None,
    taught: Taught,
) -> Setup:
    """Check the logs, and bring them and the settings into the form that learners take."""
    allowed, entry, demonstrations = limits(budget, costs.channels), LEARNERS[method], taught.demonstrations
    _refuse_misfits(method, budget, allowed, episodes, labels, costs)
    transitions = logged = Transitions.build(episodes, labels, costs)
    if demonstrations is not None:
        refuse_unweighed(method)
        check_demonstrations(demonstrations, episodes)
        transitions = with_demonstrations(logged, demonstrations, labels)
    _refuse_one_sided(labels, allowed, costs.channels)
    if entry.settle is not None:
        refuse_percentiles(repr(method), allowed)
        behaviour = behaviour or _fitted(episodes, labels, seed, taught)
        config = _settled(entry.settle, config, transitions, behaviour)
        hyper = hyper._replace(threshold=np.full(len(allowed), np.inf, np.float32))
    else:
        hyper = _limited(config, hyper, budget, allowed, costs)
    within = _imitated(method, budget, costs, hyper) if entry.imitates else None
    if entry.proposes:
        behaviour = behaviour or _fitted(episodes, labels, seed, taught)
        _refuse_foreign(behaviour, labels, config, demonstrations)
        frozen = restore_behaviour(behaviour)
    elif behaviour is not None:
        raise RciError(f"{method!r} uses no behaviour model, so leave it out.")
    else:
        frozen = FrozenBehaviour(None, measure_scaling(transitions))
    data = to_device(transitions, frozen.scaling, within, None if behaviour is None else behaviour.proposal)
    apart, chosen = None, np.ones(len(episodes), bool)
    if entry.settle is not None and behaviour is not None:
        apart = episodes_apart(len(episodes), behaviour.info["split"])
        chosen = ~apart
        data = data._replace(fitted=transitions_of(chosen, logged.lengths))
    if entry.weighs:
        pools = pools_for(taught.emphasis, logged, len(transitions) - len(logged), chosen)
        data = data._replace(pools=pools)
    return Setup(config, hyper, data, frozen, behaviour, logged.lengths, apart, logged, taught)


def _fitted(episodes: Episodes, labels: Labels, seed: int, taught: Taught) -> Behaviour:
    """A behaviour model of the same steps, drawn as often."""
    return fit_behaviour(
        episodes, labels, seed, demonstrations=taught.demonstrations, emphasis=taught.emphasis
    )


def _refuse_misfits(
    method: str,
    budget: Budget,
    allowed: tuple[Limit, ...],
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
) -> None:
    """Logs, costs and a budget that do not go with each other or with the learner."""
    if not LEARNERS[method].constrained and any(limit != math.inf for limit in allowed):
        raise RciError(f"{method!r} knows no budget, so {budget} would be ignored; learn with budget inf.")
    if costs.channels != labels.channels:
        raise RciError(
            f"the step costs have the channels {', '.join(costs.channels) or 'none'}, but the labels have "
            f"{', '.join(labels.channels) or 'none'}."
        )
    if not np.issubdtype(episodes.action.dtype, np.floating):
        raise RciError(
            f"the actions are {episodes.action.dtype}, but learners choose among continuous ones. If yours are "
            "quantities, convert them to float32; choices among a few actions are not supported."
        )


def _refuse_one_sided(labels: Labels, own: tuple[Limit, ...], channels: tuple[str, ...]) -> None:
    """A budget means nothing to logs in which all or no episodes were stopped, in any channel that has one."""
    limited = [limit != math.inf for limit in own]
    if all(limited) and labels.stopped.all():
        raise RciError(
            f"all {len(labels)} episodes were stopped: no safe behaviour was ever seen, so no policy can learn from "
            "these logs to stay within a budget. Record safe episodes too, or learn with budget inf."
        )
    if any(limited) and not labels.stopped.any():
        raise RciError(
            f"none of the {len(labels)} episodes was stopped: the logs say nothing about danger, so no policy can "
            "learn from them to stay within a budget. Label unsafe episodes too, or learn with budget inf."
        )
    for k, channel in enumerate(channels):
        fired = labels.channel_cost[:, k] > 0
        if limited[k] and (fired.all() or not fired.any()):
            how = "every episode was" if fired.all() else f"none of the {len(labels)} episodes was"
            raise RciError(
                f"{how} stopped for {channel!r}: the logs do not show both sides of it, so no policy can learn from "
                f"them to stay within a budget for it. Label such episodes too, or learn with {channel}=inf."
            )


def _refuse_foreign(
    behaviour: Behaviour, labels: Labels, config: Any, demonstrations: Episodes | None
) -> None:
    """A behaviour model of other data is of no use; and of too few proposals, a learner would see some twice."""
    if behaviour.info["labels_hash"] != labels.hash:
        raise RciError("the behaviour model was fitted to other labels; fit it again with fit_behaviour.")
    if behaviour.info.get("demonstrations_hash") != (demonstrations and demonstrations.hash):
        raise RciError(
            "the behaviour model was fitted with other demonstrations, or with some where there are none now; fit it "
            "again with fit_behaviour(..., demonstrations=...)."
        )
    if behaviour.proposal is not None:
        refuse_few_proposals(behaviour.proposal.shape[1], config)


def _settled(settle: Callable[..., Any], config: Any, transitions: Transitions, behaviour: Behaviour) -> Any:
    """The configuration for these logs."""
    shape, rows = (len(transitions), -1), behaviour.model.config["rows"] or 0
    return settle(config, transitions.cost.reshape(shape), transitions.label_cost.reshape(shape), rows)


def _limited(config: Any, hyper: Any, budget: Budget, allowed: tuple[Limit, ...], costs: StepCosts) -> Any:
    """The numbers with the threshold that stands for the budget in the training."""
    audits = "audited" in hyper._fields and config.estimate == "audited"
    discount, cost_discount = getattr(hyper, "discount", DISCOUNT), getattr(hyper, "cost_discount", 1.0)
    hyper = hyper._replace(threshold=threshold(budget, costs, discount, cost_discount, audits))
    if "audited" in hyper._fields:
        hyper = hyper._replace(audited=audited(allowed, audits))
    return hyper


def _imitated(method: str, budget: Budget, costs: StepCosts, hyper: Any) -> Array:
    """The episodes that kept the budget, for a method that imitates them."""
    within = kept_budget(budget, costs, getattr(hyper, "discount", DISCOUNT))
    if not within.any():
        raise RciError(
            f"no episode kept the budget {budget} under these step costs, and {method!r} only imitates those that did. "
            "Allow a larger budget, or a percentile such as P30."
        )
    return within


def _keeper(
    checkpoint: str | Path | None,
    every: int,
    setup: Setup,
    method: str,
    budget: Budget,
    seed: int,
    costs: StepCosts,
    beyond: bool,
) -> Keeper | None:
    """What keeps the training on disk, under a digest of everything that it depends on but its length."""
    if checkpoint is not None:
        numbers = [np.asarray(value).tolist() for value in setup.hyper]
        parents = [costs.hash, None if setup.behaviour is None else setup.behaviour.hash]
        made_from = [method, asdict(setup.config), numbers, str(budget), int(seed), parents]
        if setup.taught.named():
            made_from.append(setup.taught.named())
        training = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
        return Keeper(Path(checkpoint), every, training, beyond)
    if beyond:
        raise RciError("a longer training can go on only from a checkpoint; say where to keep it.")
    return None


def _parts(progress: Progress, share: float) -> tuple[Progress, Progress]:
    """Progress of the first part of the work, which is this share of it, and of the rest."""
    return lambda done: progress(share * done), lambda done: progress(share + (1 - share) * done)


def _facts(setup: Setup, costs: StepCosts) -> dict[str, Any]:
    """What the policy was made from."""
    labelled = np.asarray(setup.data.label_cost) > 0
    return {
        "logged_violation": per_channel((labelled.sum(axis=0) / len(setup.lengths)).tolist(), costs.channels),
        "threshold": per_channel([str(float(number)) for number in setup.hyper.threshold], costs.channels),
        "obs_size": setup.data.obs.shape[-1],
        "action_size": setup.data.action.shape[-1],
        "costs": costs.method,
        "costs_hash": costs.hash,
        "reward_unit": float(setup.frozen.scaling.reward_unit),
        **named_channels(costs.channels),
    }


def _estimates(
    method: str,
    setup: Setup,
    state: Any,
    actor: Any,
    history: list[dict[str, Any]],
    channels: tuple[str, ...],
) -> dict[str, Any]:
    """What the learner itself says of the policy: its multiplier, its estimate of the cost, what its critics expect."""
    facts = dict[str, Any]()
    if hasattr(state, "multiplier"):  # counted in the unit of rewards
        facts["multiplier"] = per_channel(state.multiplier.tolist(), channels)
    estimates = [value for name, value in history[-1].items() if name.startswith("cost_estimate")]
    if estimates:
        facts["cost_estimate"] = per_channel(estimates, channels)
    _, predict, _ = compiled(method, setup.config)
    if predict is not None:
        expected_return, expected_cost = predict(
            actor, setup.data.obs[setup.data.initial[: len(setup.lengths)]]
        )
        facts["predicted_return"] = float(expected_return.mean())
        facts["predicted_cost"] = per_channel(expected_cost.mean(axis=0).tolist(), channels)
    return facts


def _policy_of(method: str, setup: Setup, actor: Any, info: dict[str, Any]) -> Policy:
    """The trained policy as it is saved, with its functions."""
    sizes = {"obs_size": info["obs_size"], "action_size": info["action_size"]}
    model = sizes if setup.behaviour is None else setup.behaviour.model.config
    settings = {"config": asdict(setup.config), "behaviour": model, "channels": setup.data.cost.shape[-1]}
    return restore_policy(Policy(SavedModel(method, settings, to_arrays(actor)), info))


def _with_ladder(
    policy: Policy, setup: Setup, actor: Any, seed: int, progress: Progress, budget: Budget
) -> Policy:
    """The policy at the threshold for its budget, by the thresholds that were tried on episodes kept apart."""
    _, _, act_at = compiled(policy.model.method, setup.config)
    if setup.apart is None or act_at is None:
        return policy
    data = setup.data
    if (
        setup.taught.demonstrations is not None
    ):  # where a person drives, nobody takes over: that does not make the world safe
        data = to_device(setup.logged, setup.frozen.scaling)
    ladder = calibrate(
        act_at,
        actor,
        data,
        setup.lengths,
        setup.apart,
        setup.config.head == "hazard",
        setup.config.rows,
        seed,
        progress,
        WorldSettings(setup.config.model_updates),
    )
    return replace(policy, info={**policy.info, "ladder": ladder.as_table()}).with_budget(budget)

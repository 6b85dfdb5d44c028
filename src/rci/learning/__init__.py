"""Fourth stage: a policy that earns what it can within the budget, from logs alone."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from rci.data.budgets import Budget, Limit, limits, parse_budget, refuse_percentiles
from rci.data.errors import RciError, unknown_name
from rci.data.labels import named_channels, per_channel
from rci.data.models import Behaviour, Policy, SavedModel
from rci.data.options import build_parts, require_positive
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels, StepCosts, Transitions
from rci.learning import bc, bc_safe, bcq_lagrangian, bear_lagrangian, cdt, coptidice, cpq, feasible
from rci.learning.base import Learner, Method
from rci.learning.behaviour import Config as BehaviourConfig
from rci.learning.behaviour import (
    FrozenBehaviour,
    episodes_apart,
    fit_behaviour,
    restore_behaviour,
    template,
)
from rci.learning.budget import audited, kept_budget, threshold
from rci.learning.calibration import calibrate
from rci.learning.checkpoint import Keeper
from rci.learning.dataset import Dataset, measure_scaling, to_device, transitions_of
from rci.learning.train import train
from rci.learning.world import Settings as WorldSettings
from rci.nets.arrays import from_arrays, to_arrays

LEARNERS: dict[str, Method] = {
    "bc": Method(bc.make, bc.Config, bc.Hyper, proposes=False, constrained=False),
    "bc-safe": Method(bc_safe.make, bc.Config, bc_safe.Hyper, proposes=False, imitates=True),
    "bcq-lagrangian": Method(bcq_lagrangian.make, bcq_lagrangian.Config, bcq_lagrangian.Hyper),
    "bear-lagrangian": Method(bear_lagrangian.make, bear_lagrangian.Config, bear_lagrangian.Hyper),
    "coptidice": Method(coptidice.make, coptidice.Config, coptidice.Hyper, proposes=False),
    "cpq": Method(cpq.make, cpq.Config, cpq.Hyper),
    "cdt": Method(cdt.make, cdt.Config, cdt.Hyper, proposes=False, imitates=True),
    "feasible": Method(feasible.make, feasible.Config, feasible.Hyper, settle=feasible.settle),
}

TRAINING_SHARE = 0.4  # of the time, where thresholds are tried after the training
DISCOUNT = 0.99  # of the costs that a percentile is of, where a method has no discount of its own

__all__ = ["LEARNERS", "fit_behaviour", "learn", "predict_values", "restore_policy"]


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how often to keep a checkpoint where there is a folder for one."""

    updates: int = 10_000
    checkpoint_every: int = 5_000

    def __post_init__(self) -> None:
        require_positive(self, "updates", "checkpoint_every")


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
    options: settings of the method (see its Config and Hyper), `updates` and `checkpoint_every`.
    """
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    expect(StepCosts, costs=costs)
    config, hyper, schedule = parse_options(method, options)
    budget = parse_budget(budget)
    own = limits(budget, costs.channels)
    entry = LEARNERS[method]
    if not entry.constrained and any(limit != math.inf for limit in own):
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
    transitions = Transitions.build(episodes, labels, costs)
    _refuse_one_sided(labels, own, costs.channels)
    discount = getattr(hyper, "discount", DISCOUNT)
    if entry.settle is not None:
        refuse_percentiles(repr(method), own)
        behaviour = behaviour or fit_behaviour(episodes, labels, seed)
        shape, rows = (len(transitions), -1), behaviour.model.config["rows"] or 0
        config = entry.settle(
            config, transitions.cost.reshape(shape), transitions.label_cost.reshape(shape), rows
        )
        hyper = hyper._replace(threshold=np.full(len(own), np.inf, np.float32))
    else:
        audits = "audited" in hyper._fields and config.estimate == "audited"
        cost_discount = getattr(hyper, "cost_discount", 1.0)
        hyper = hyper._replace(threshold=threshold(budget, costs, discount, cost_discount, audits))
        if "audited" in hyper._fields:
            hyper = hyper._replace(audited=audited(own, audits))
    within = kept_budget(budget, costs, discount) if entry.imitates else None
    if within is not None and not within.any():
        raise RciError(
            f"no episode kept the budget {budget} under these step costs, and {method!r} only imitates those that did. "
            "Allow a larger budget, or a percentile such as P30."
        )
    if not entry.proposes:
        if behaviour is not None:
            raise RciError(f"{method!r} uses no behaviour model, so leave it out.")
        frozen = FrozenBehaviour(None, measure_scaling(transitions))
    else:
        behaviour = behaviour or fit_behaviour(episodes, labels, seed)
        _refuse_foreign(behaviour, labels, config)
        frozen = restore_behaviour(behaviour)
    data = to_device(transitions, frozen.scaling, within, None if behaviour is None else behaviour.proposal)
    apart = None
    if entry.settle is not None and behaviour is not None:
        apart = episodes_apart(len(episodes), behaviour.info["split"])
        data = data._replace(fitted=transitions_of(~apart, transitions.lengths))
    keeper = None
    if checkpoint is not None:
        numbers = [np.asarray(value).tolist() for value in hyper]
        parents = [costs.hash, None if behaviour is None else behaviour.hash]
        made_from = [method, asdict(config), numbers, str(budget), int(seed), parents]
        training = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
        keeper = Keeper(Path(checkpoint), schedule.checkpoint_every, training, beyond)
    elif beyond:
        raise RciError("a longer training can go on only from a checkpoint; say where to keep it.")
    training_share = 1.0 if apart is None else TRAINING_SHARE
    state, history = train(
        entry.make,
        config,
        hyper,
        data,
        frozen,
        schedule.updates,
        seed,
        lambda share: progress(training_share * share),
        costs.channels,
        keeper,
    )
    actor = entry.make(config).policy(state, frozen, hyper)
    info = {
        "budget": str(budget),
        "threshold": per_channel([str(float(number)) for number in hyper.threshold], costs.channels),
        "obs_size": data.obs.shape[-1],
        "obs_shape": list(episodes.obs.shape[1:]),
        "action_size": data.action.shape[-1],
        "costs": costs.method,
        "costs_hash": costs.hash,
        "seed": seed,
        "updates": schedule.updates,
        "reward_unit": float(frozen.scaling.reward_unit),
        "history": history,
        **named_channels(costs.channels),
    }
    if hasattr(state, "multiplier"):  # counted in the unit of rewards
        info["multiplier"] = per_channel(state.multiplier.tolist(), costs.channels)
    estimates = [value for name, value in history[-1].items() if name.startswith("cost_estimate")]
    if estimates:
        info["cost_estimate"] = per_channel(estimates, costs.channels)
    _, predict, act_at = _compiled(method, config)
    if predict is not None:
        expected_return, expected_cost = predict(actor, data.obs[data.initial])
        info["predicted_return"] = float(expected_return.mean())
        info["predicted_cost"] = per_channel(expected_cost.mean(axis=0).tolist(), costs.channels)
    settings = {
        "config": asdict(config),
        "behaviour": {"obs_size": info["obs_size"], "action_size": info["action_size"]}
        if behaviour is None
        else behaviour.model.config,
        "channels": data.cost.shape[-1],
    }
    policy = restore_policy(Policy(SavedModel(method, settings, to_arrays(actor)), info))
    if apart is None or act_at is None:
        return policy
    ladder = calibrate(
        act_at,
        actor,
        data,
        transitions.lengths,
        apart,
        config.head == "hazard",
        config.rows,
        seed,
        lambda share: progress(TRAINING_SHARE + (1 - TRAINING_SHARE) * share),
        WorldSettings(config.model_updates),
    )
    info["ladder"] = ladder.as_table()
    return replace(policy, info=info).with_budget(budget)


def restore_policy(policy: Policy) -> Policy:
    """Give a policy that holds weights only its function back."""
    config, actor = _restore_actor(policy)
    memory = LEARNERS[policy.model.method].make(config).memory(actor)
    return replace(
        policy,
        memory=jax.tree.map(np.asarray, memory),
        step=_step(policy.model.method, config, actor),
        revive=restore_policy,
    )


def predict_values(policy: Policy, obs: ArrayLike) -> tuple[Array, Array]:
    """What the critics expect of the policy from each state on: Q(s, pi(s)) and Q_c(s, pi(s)).

    obs: [..., features], or [..., *shape] where an observation is an array; both answers have the shape `...`, and
    with channels the cost has an axis for them behind it: [..., K].
    """
    obs = np.asarray(obs, np.float32)
    features = int(policy.info["obs_size"])
    # The axes of one observation are the last ones, and only as many as it takes.
    own = next((n for n in range(1, obs.ndim + 1) if math.prod(obs.shape[-n:]) == features), None)
    if own is None:
        raise RciError(f"the policy expects observations of {features} features, got shape {obs.shape}.")
    if not np.isfinite(obs).all():
        raise RciError("the observations have a value that is not finite.")
    config, actor = _restore_actor(policy)
    _, predict, _ = _compiled(policy.model.method, config)
    if predict is None:
        raise RciError(
            f"{policy.model.method!r} has no critics, so it expects nothing; see rci.judge for what logs say of it."
        )
    shape = obs.shape[: obs.ndim - own]
    answers = predict(actor, actor.behaviour.scaling.obs(jnp.asarray(obs.reshape(-1, features))))
    expected_return, expected_cost = (np.asarray(answer) for answer in answers)
    channels = expected_cost.shape[1:] if expected_cost.shape[-1] > 1 else ()
    return expected_return.reshape(shape), expected_cost.reshape((*shape, *channels))


def parse_options(method: str, options: dict[str, Any]) -> tuple[Any, Any, Schedule]:
    """Check the name of a learner and its settings without running it."""
    entry = _entry(method)
    for name in {"threshold", "audited"} & set(options):
        raise RciError(f"{name!r} is made from the budget; set budget instead.")
    if "rows" in options:
        raise RciError(
            f"{method!r} sees observations as the behaviour model does; set behaviour.rows instead."
        )
    config, hyper, schedule = build_parts((entry.config, entry.hyper, Schedule), options, method)
    several = getattr(config, "cost_steps", 1) != 1 or getattr(config, "cost_lambda", 0.0) > 0
    if several and hyper.cost_discount != 1.0:
        raise RciError("several recorded steps are summed without a discount; leave cost_discount at 1.")
    return config, hyper, schedule


@lru_cache(maxsize=32)
def settings_of(method: str) -> frozenset[str]:
    """The names of a learner's settings."""
    entry = _entry(method)
    return frozenset(name for part in (entry.config, entry.hyper, Schedule) for name in get_type_hints(part))


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


def _refuse_foreign(behaviour: Behaviour, labels: Labels, config: Any) -> None:
    """A behaviour model of other data is of no use; and of too few proposals, a learner would see some twice."""
    if behaviour.info["labels_hash"] != labels.hash:
        raise RciError("the behaviour model was fitted to other labels; fit it again with fit_behaviour.")
    if behaviour.proposal is not None:
        refuse_few_proposals(behaviour.proposal.shape[1], config)


def refuse_few_proposals(known: int, config: Any) -> None:
    """known: how many the behaviour model keeps for each observation; 0 = it decodes new ones in every update."""
    asked = getattr(config, "candidates", 1)
    if 0 < known < asked:
        raise RciError(
            f"the behaviour model keeps {known} proposals for each observation, but candidates is {asked}; fit it with "
            "more of them (behaviour.proposals), or with 0, to decode new ones in every update."
        )


def _entry(method: str) -> Method:
    if method not in LEARNERS:
        raise unknown_name("learner", method, LEARNERS)
    return LEARNERS[method]


def _restore_actor(policy: Policy) -> tuple[Any, Any]:
    """The configuration of a saved policy, and its weights in the shape that the learner knows."""
    entry = _entry(policy.model.method)
    settings = policy.model.config
    config = entry.config(**settings["config"])
    learner = entry.make(config)
    model = dict(settings["behaviour"])
    sizes = model.pop("obs_size"), model.pop("action_size")
    behaviour = template(*sizes, BehaviourConfig(**model) if entry.proposes else None)
    channels = settings["channels"]
    from_budget = {"threshold", "audited"} & set(entry.hyper()._fields)
    hyper = entry.hyper(**dict.fromkeys(from_budget, np.zeros(channels, np.float32)))
    blank = jax.eval_shape(partial(_blank_actor, learner, hyper, channels), behaviour)
    return config, from_arrays(blank, policy.model.arrays)


def _blank_actor(learner: Learner, hyper: Any, channels: int, behaviour: Any) -> Any:
    """An actor of the right shapes, from a dataset of one transition; only ever traced for them."""
    obs = jnp.stack([behaviour.scaling.obs.mean] * 2)
    action, number, row = behaviour.scaling.action_centre[None], jnp.zeros(1), jnp.zeros(1, jnp.int32)
    cost = jnp.zeros((1, channels))
    data = Dataset(
        obs=obs,
        row=row,
        action=action,
        reward=number,
        cost=cost,
        terminated=number,
        truncated=number,
        stopped=number,
        last=number,
        initial=row,
        step=row,
        left=row,
        reward_to_go=number,
        cost_to_go=cost,
        cost_range=jnp.zeros((2, channels)),
        label_cost=cost,
        within=number,
    )
    init_key, batch_key = jax.random.split(jax.random.key(0))
    batch = learner.sample(batch_key, data, behaviour)
    return learner.policy(learner.init(init_key, batch, hyper), behaviour, hyper)


def _step(method: str, config: Any, actor: Any) -> Callable[[int, Any, Array], tuple[Array, Any]]:
    """The policy as a pure function of numpy arrays."""
    act, _, _ = _compiled(method, config)

    def step(seed: int, memory: Any, obs: Array) -> tuple[Array, Any]:
        action, memory = act(seed, actor, memory, obs)
        return np.asarray(action), memory

    return step


@lru_cache(maxsize=32)
def _compiled(method: str, config: Any) -> tuple[Callable, Callable | None, Callable | None]:
    """Acting, predicting and acting under several thresholds, compiled once for all policies of a kind.

    Not all predict, and few have thresholds. The last one takes observations in the networks' own scale.
    """
    learner = LEARNERS[method].make(config)

    @jax.jit
    def act(seed: int, actor: Any, memory: Any, obs: jax.Array) -> tuple[jax.Array, Any]:
        scaling = actor.behaviour.scaling
        action, memory = learner.act(jax.random.key(seed), actor, memory, scaling.obs(obs))
        return scaling.decode_action(action), memory

    under = learner.act_at
    act_at = None
    if under is not None:
        act_at = jax.jit(lambda actor, thresholds, obs: under(jax.random.key(0), actor, thresholds, obs))
    expects = learner.predict
    if expects is None:
        return act, None, act_at

    @jax.jit
    def predict(actor: Any, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        expected_return, expected_cost = expects(jax.random.key(0), actor, obs)
        return expected_return * actor.behaviour.scaling.reward_unit, expected_cost

    return act, predict, act_at

"""What a trained policy does, as functions: to act, and what its critics expect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.models import Policy
from rci.data.errors import RciError
from rci.data.record import Array
from rci.learning.base import Learner
from rci.learning.behaviour import Config as BehaviourConfig
from rci.learning.behaviour import template
from rci.learning.dataset import Dataset
from rci.learning.learners import LEARNERS, learner_called
from rci.nets.arrays import from_arrays


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
    _, predict, _ = compiled(policy.model.method, config)
    if predict is None:
        raise RciError(
            f"{policy.model.method!r} has no critics, so it expects nothing; see rci.judge for what logs say of it."
        )
    shape = obs.shape[: obs.ndim - own]
    answers = predict(actor, actor.behaviour.scaling.obs(jnp.asarray(obs.reshape(-1, features))))
    expected_return, expected_cost = (np.asarray(answer) for answer in answers)
    channels = expected_cost.shape[1:] if expected_cost.shape[-1] > 1 else ()
    return expected_return.reshape(shape), expected_cost.reshape((*shape, *channels))


@lru_cache(maxsize=32)
def compiled(method: str, config: Any) -> tuple[Callable, Callable | None, Callable | None]:
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


def _restore_actor(policy: Policy) -> tuple[Any, Any]:
    """The configuration of a saved policy, and its weights in the shape that the learner knows."""
    entry = learner_called(policy.model.method)
    settings = policy.model.config
    config = entry.config(**settings["config"])
    learner = entry.make(config)
    model = dict(settings["behaviour"])
    sizes = model.pop("obs_size"), model.pop("action_size")
    behaviour = template(*sizes, BehaviourConfig(**model) if entry.proposes else None)
    channels = settings["channels"]
    from_budget = {"threshold", "audited"} & set(entry.hyper()._fields)
    hyper = entry.hyper(**dict.fromkeys(from_budget, np.zeros(channels, np.float32)))
    blank = jax.eval_shape(partial(blank_actor, learner, hyper, channels), behaviour)
    return config, from_arrays(blank, policy.model.arrays)


def blank_actor(learner: Learner, hyper: Any, channels: int, behaviour: Any) -> Any:
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
    act, _, _ = compiled(method, config)

    def step(seed: int, memory: Any, obs: Array) -> tuple[Array, Any]:
        action, memory = act(seed, actor, memory, obs)
        return np.asarray(action), memory

    return step

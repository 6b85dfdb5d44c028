"""The contract of stage three: anything that turns transitions with step costs into a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from rci.data.record import Array
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.dataset import Dataset


class Learner(NamedTuple):
    """Pure functions of one method.

    sample(key, data, behaviour) -> batch;  init(key, batch, hyper) -> state
    update(key, state, batch, hyper) -> (state, info)
    policy(state, behaviour, hyper) -> everything that acting needs, as a pytree of arrays
    act(key, policy, memory, obs) -> (action, memory): [B, d] -> [B, a], both in the networks' own scale
    predict(key, policy, obs) -> expected remaining (return [B], cost [B, K]) from each state under the policy, rewards
        in the networks' own scale; None where a method expects nothing
    act_at(key, policy, thresholds, obs) -> actions under each of M thresholds, [M, K], [B, d] -> [B, M, a]; None where
        a threshold has a part in the training
    memory(policy) -> what one episode remembers before its first step; in `act` it has an axis B in front

    Costs have one column for each of K channels, and so do thresholds and multipliers: [K]. State holds everything
    that changes, the multiplier included; info is everything diagnostic, one number or one per channel each.
    """

    sample: Callable[[jax.Array, Dataset, FrozenBehaviour], Any]
    init: Callable[[jax.Array, Any, Any], Any]
    update: Callable[[jax.Array, Any, Any, Any], tuple[Any, Any]]
    policy: Callable[[Any, FrozenBehaviour, Any], Any]
    act: Callable[[jax.Array, Any, Any, jax.Array], tuple[jax.Array, Any]]
    predict: Callable[[jax.Array, Any, jax.Array], tuple[jax.Array, jax.Array]] | None = None
    act_at: Callable[[jax.Array, Any, jax.Array, jax.Array], jax.Array] | None = None
    memory: Callable[[Any], Any] = lambda policy: ()


class Method(NamedTuple):
    """A registered learner: how to make it, which settings it takes, and what it needs and can do."""

    make: Callable[[Any], Learner]
    config: type
    hyper: type
    proposes: bool = (
        True  # whether it uses the behaviour model; otherwise only its scaling, and none is fitted
    )
    constrained: bool = True  # whether a budget means anything to it
    imitates: bool = False  # whether it follows the episodes that kept the budget, so that there must be some
    weighs: bool = False  # whether it draws steps by weights, and what a person drove among them
    # For those whose threshold has no part in the training, so that one training serves every budget: the configuration
    # for these logs, from step costs, labels, and of how many rows an observation is made.
    settle: Callable[[Any, Array, Array, int], Any] | None = None

"""GRD: learn which inputs cause the cost, and let only those speak.

Zhang et al., "Interpretable Reward Redistribution in Reinforcement Learning: A Causal Approach", NeurIPS 2023
(arXiv 2305.18427).

Every dimension of (obs, action) has a switch: open if it is a cause of the cost. The cost of a step is a network
of the inputs whose switch is open, fitted on random subsets of steps as in RRD. A second set of switches says
which inputs cause each dimension of the next observation, found by predicting it. Open switches have a price, so
what does not help is closed. Together they say which part of an observation matters for the cost, now or later.

Deviates:
- a switch is one logistic draw with a straight-through gradient, the two-class case of the authors' Gumbel-softmax.
- the price is the expected number of open switches, instead of a sum of log probabilities; an input is kept if it
  lowers the loss by more than `cost_price`, or the negative log-likelihood by more than `dynamics_price` nats.
- the dimensions of the next observation share the first layer, each with its own switches, offset and head.
- log deviations are bounded and exponentiated; the authors' code uses them as deviations.
- dynamics are fitted on `dynamics_steps` random steps per episode, without the last one, whose successor no method is
  given; they and the cost share no weights.
- training stops by the error of the cost alone, with the switches as they are when scoring.
- the sum is made exact afterwards, as for all methods; the authors leave it as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rci.data.batch import Sequences
from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.data.record import Array
from rci.nets.dense import Mlp, Normaliser, rows_of
from rci.redistribution.base import Redistributor
from rci.redistribution.learned import State, input_statistics, learned, pairs, running_sum
from rci.redistribution.methods.rrd import FIRST_SCALE, at_steps, draw_steps, subset_loss

FIRST_LOGIT = 1.0  # every switch starts open, with probability 0.73
SWITCH_SPEED = 10.0  # a logit is this many times its weight: switches must turn in a few hundred updates
LOG_SIGMA = (-4.0, 2.0)  # of a next observation scaled to deviation 1


@dataclass(frozen=True)
class Config:
    """What shapes the networks and their loss."""

    hidden: int = 64
    steps: int = 64  # drawn from each episode and update, for the cost
    dynamics_steps: int = 8  # and for the dynamics
    components: int = 3  # normal distributions in the mixture of each dimension
    temperature: float = 1.0  # of the switches' gradient
    unbiased: bool = False
    cost_price: float = 0.002  # of an open switch, in squared episodic cost
    dynamics_price: float = 0.02  # and in nats

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "steps", "dynamics_steps", "components")
        if self.unbiased and self.steps < 2:
            raise RciError("unbiased needs at least 2 steps to estimate a variance from, got 1.")
        if not self.temperature > 0:
            raise RciError(f"temperature must be above 0, got {self.temperature}.")
        for name in ("cost_price", "dynamics_price"):
            if not getattr(self, name) >= 0:
                raise RciError(f"{name} must be at least 0, got {getattr(self, name)}.")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 3e-3


class Dynamics(eqx.Module):
    """Inputs [R, i] under switches [i, j] -> raw mixture parameters of each next dimension, [R, j, 3, components]."""

    weight: jax.Array
    offset: jax.Array
    head: jax.Array
    head_offset: jax.Array

    def __init__(self, key: jax.Array, inputs: int, outputs: int, hidden: int, components: int) -> None:
        weight_key, head_key = jax.random.split(key)
        self.weight = jax.random.normal(weight_key, (inputs, hidden)) / inputs**0.5
        self.offset = jnp.zeros((outputs, hidden))
        self.head = jax.random.normal(head_key, (outputs, hidden, 3, components)) / hidden**0.5
        self.head_offset = jnp.zeros((outputs, 3, components))

    def __call__(self, x: jax.Array, switch: jax.Array) -> jax.Array:
        first = jnp.einsum("ri,ij,ih->rjh", x, switch, self.weight)
        hidden = jax.nn.relu(first + rows_of(self.offset, first))
        raw = jnp.einsum("rjh,jhpc->rjpc", hidden, self.head)
        return raw + rows_of(self.head_offset, raw)


class Network(eqx.Module):
    """Switches and network of the cost; switches and network of the dynamics; inputs scaled alike for both."""

    normalise: Normaliser
    cost_switch: jax.Array  # [i], logits / SWITCH_SPEED, i = obs and action dimensions
    cost: Mlp
    dynamics_switch: jax.Array  # [i, j], j = dimensions of the next observation
    dynamics: Dynamics

    def step_cost(self, obs: jax.Array, action: jax.Array, switch: jax.Array) -> jax.Array:
        """Cost of each step with these switches of the inputs, one set or one for each row."""
        x = self.normalise(pairs(obs, action))
        return self.cost(x * jnp.broadcast_to(switch, x.shape))[..., 0]

    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        return self.step_cost(obs, action, settled(self.cost_logits))

    @property
    def cost_logits(self) -> jax.Array:
        """[i]"""
        return SWITCH_SPEED * self.cost_switch

    @property
    def dynamics_logits(self) -> jax.Array:
        """[i, j]"""
        return SWITCH_SPEED * self.dynamics_switch


def draw_switches(key: jax.Array, logits: jax.Array, temperature: float) -> jax.Array:
    """1 with probability sigmoid(logit), else 0; the gradient is that of sigmoid((logit + noise) / temperature)."""
    soft = jax.nn.sigmoid((logits + jax.random.logistic(key, logits.shape)) / temperature)
    hard = (soft > 0.5).astype(soft.dtype)
    return hard + (soft - jax.lax.stop_gradient(soft))


def settled(logits: jax.Array) -> jax.Array:
    """The switches without chance: open where the probability is above a half."""
    return (logits > 0).astype(logits.dtype)


def open_switches(logits: jax.Array) -> jax.Array:
    """The expected number of open switches: what has a price."""
    return jnp.sum(jax.nn.sigmoid(logits))


def bounded(raw: jax.Array) -> jax.Array:
    """Any number into the range of LOG_SIGMA; unlike a hard clip it can always find its way back."""
    low, high = LOG_SIGMA
    return low + (high - low) * jax.nn.sigmoid(raw)


def mixture_log_likelihood(x: jax.Array, raw: jax.Array) -> jax.Array:
    """log sum_k w_k N(x; m_k, s_k). x: [..., j]; raw: [..., j, 3, k], logits of w, then m, then log s unbounded."""
    log_weight, mean, log_sigma = jax.nn.log_softmax(raw[..., 0, :]), raw[..., 1, :], bounded(raw[..., 2, :])
    z = (x[..., None] - mean) * jnp.exp(-log_sigma)
    return jax.nn.logsumexp(log_weight - 0.5 * z**2 - log_sigma, axis=-1) - 0.5 * jnp.log(2 * jnp.pi)


def dynamics_loss(log_likelihood: jax.Array, valid: jax.Array) -> jax.Array:
    """Minus the log-likelihood of the next observation, summed over its dimensions, mean over rows that have one.

    log_likelihood: [R, j]; valid: [R].
    """
    return -jnp.sum(log_likelihood.sum(axis=1) * valid) / jnp.maximum(valid.sum(), 1.0)


def matters(cost_open: Array, dynamics_open: Array) -> Array:
    """Which dimensions of the observation cause the cost, directly or through later observations.

    cost_open: [i] and dynamics_open: [i, j] are true where a switch is open, observations first; result: [j].
    """
    reach = np.array(cost_open[: dynamics_open.shape[1]], bool)
    for _ in reach:
        reach = reach | (dynamics_open[: len(reach)] & reach).any(axis=1)
    return reach


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def build(key: jax.Array, data: Sequences) -> Network:
        outputs = data.obs.shape[-1]
        inputs = outputs + data.action.shape[-1]
        cost_key, dynamics_key = jax.random.split(key)
        return Network(
            input_statistics(data),
            jnp.full(inputs, FIRST_LOGIT / SWITCH_SPEED),
            Mlp(cost_key, (inputs, config.hidden, config.hidden, 1), FIRST_SCALE),
            jnp.full((inputs, outputs), FIRST_LOGIT / SWITCH_SPEED),
            Dynamics(dynamics_key, inputs, outputs, config.hidden, config.components),
        )

    def cost_error(key: jax.Array, network: Network, batch: Sequences, switch: jax.Array) -> jax.Array:
        index = draw_steps(key, batch.mask, config.steps)
        step = network.step_cost(at_steps(batch.obs, index), at_steps(batch.action, index), switch)
        return subset_loss(step, batch.cost, batch.mask.sum(axis=1), "return", config.unbiased)

    def dynamics_error(key: jax.Array, network: Network, batch: Sequences, switch: jax.Array) -> jax.Array:
        """Of steps whose successor is in the batch. That of the last step is not: its row counts nothing."""
        index = draw_steps(key, batch.mask, config.dynamics_steps)
        has_next = index + 1 < batch.mask.sum(axis=1, keepdims=True)
        x = network.normalise(pairs(at_steps(batch.obs, index), at_steps(batch.action, index)))
        after = jnp.where(has_next, index + 1, index)
        # The action beside the next observation only fills the row; it is cut off again.
        y = network.normalise(pairs(at_steps(batch.obs, after), at_steps(batch.action, after)))
        raw = network.dynamics(x.reshape(-1, x.shape[-1]), switch)
        target = y[..., : batch.obs.shape[-1]].reshape(raw.shape[:2])
        return dynamics_loss(mixture_log_likelihood(target, raw), has_next.reshape(-1).astype(raw.dtype))

    def loss(key: jax.Array, network: Network, batch: Sequences) -> jax.Array:
        cost_key, dynamics_key, cost_switch_key, dynamics_switch_key = jax.random.split(key, 4)
        # One draw per episode: a cause is one for all of its steps.
        logits = jnp.broadcast_to(network.cost_logits, (len(batch.cost), 1, len(network.cost_switch)))
        cost_switch = draw_switches(cost_switch_key, logits, config.temperature)
        dynamics_switch = draw_switches(dynamics_switch_key, network.dynamics_logits, config.temperature)
        return (
            cost_error(cost_key, network, batch, cost_switch)
            + config.cost_price * open_switches(network.cost_logits)
            + dynamics_error(dynamics_key, network, batch, dynamics_switch)
            + config.dynamics_price * open_switches(network.dynamics_logits)
        )

    def held_out_loss(state: State, batch: Sequences) -> jax.Array:
        return cost_error(jax.random.key(0), state.network, batch, settled(state.network.cost_logits))

    method = learned(build, loss, Network.__call__, scores="step", forecast=running_sum, findings=findings)
    return method._replace(held_out_loss=held_out_loss)


def findings(state: State) -> dict[str, Any]:
    """How likely each input is a cause of the cost, and which observations matter for it, now or later."""
    network = state.network
    outputs = network.dynamics_switch.shape[1]
    chance = np.asarray(jax.nn.sigmoid(network.cost_logits), np.float64).round(3).tolist()
    reach = matters(np.asarray(network.cost_logits) > 0, np.asarray(network.dynamics_logits) > 0)
    return {
        "obs_causes_cost": chance[:outputs],
        "action_causes_cost": chance[outputs:],
        "obs_matters": reach.tolist(),
    }

"""A model of the behaviour that recorded the data: a conditional variational auto-encoder of actions.

Fujimoto et al. 2019, Section 5. It depends on no cost, budget or seed of a learner, so it is trained once per
dataset and shared by all of them. So are its proposals: the actions that it might take at each recorded observation
are decoded once and kept with it, and an update only picks some of them.

Deviates: trained beforehand and frozen, instead of alongside the critics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.errors import RciError
from rci.data.labels import by_channel
from rci.data.models import Behaviour, SavedModel
from rci.data.options import require_positive
from rci.data.record import Array
from rci.data.types import Episodes, Labels, StepCosts, Transitions
from rci.learning.dataset import Dataset, Scaling, measure_scaling, to_device
from rci.learning.losses import gaussian_kl
from rci.nets.arrays import from_arrays, to_arrays
from rci.nets.dense import Normaliser, PairMlp
from rci.nets.keys import stage_key

LOG_DEVIATION_RANGE = (-4.0, 4.0)
CHUNK = 500  # updates per compiled call
PIECE = 2048  # observations whose proposals are decoded at once


@dataclass(frozen=True)
class Config:
    """Sizes and length of training."""

    hidden: int = 128
    latent_per_action: int = 2
    batch_size: int = 256
    updates: int = 5000
    learning_rate: float = 1e-3
    kl_weight: float = 0.5
    latent_limit: float = 0.5  # latents are drawn from N(0, 1) and clipped here; less is closer to the data
    proposals: int = (
        40  # actions decoded beforehand for each observation; 0 = decode new ones in every update
    )

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "latent_per_action", "batch_size", "updates")
        if self.proposals < 0:
            raise RciError(f"proposals must not be negative, got {self.proposals}.")


class Vae(eqx.Module):
    """encoder: (obs, action) -> latent mean and log deviation; decoder: (obs, latent) -> action in [-1, 1]."""

    encoder: PairMlp
    decoder: PairMlp
    latent_limit: float = eqx.field(static=True)

    def __init__(self, key: jax.Array, obs_size: int, action_size: int, config: Config) -> None:
        encoder_key, decoder_key = jax.random.split(key)
        latent, hidden = config.latent_per_action * action_size, config.hidden
        self.encoder = PairMlp(encoder_key, obs_size, action_size, (hidden, hidden, 2 * latent))
        self.decoder = PairMlp(decoder_key, obs_size, latent, (hidden, hidden, action_size))
        self.latent_limit = config.latent_limit

    @property
    def latent_size(self) -> int:
        """Dimensions of the latent."""
        return self.decoder.action_weight.shape[0]

    def decode(self, obs: jax.Array, latent: jax.Array) -> jax.Array:
        """obs [..., d], latent [..., l] or [..., n, l] -> action."""
        return jnp.tanh(self.decoder(obs, latent))

    def fresh(self, key: jax.Array, hidden: int) -> Vae:
        """A new model of the same kind, of another width."""
        sizes = self.encoder.obs_weight.shape[0], self.encoder.action_weight.shape[0]
        own = Config(
            hidden=hidden,
            latent_per_action=self.latent_size // sizes[1],
            latent_limit=self.latent_limit,
        )
        return Vae(key, *sizes, own)

    def propose(self, key: jax.Array, obs: jax.Array, count: int) -> jax.Array:
        """Actions from latents near the middle: [B, d] -> [B, count, a]."""
        return self.near(obs, jax.random.normal(key, (*obs.shape[:-1], count, self.latent_size)))

    def near(self, obs: jax.Array, latent: jax.Array) -> jax.Array:
        """Actions from normal draws, clipped: obs [B, d], latent [B, n, l] -> [B, n, a]."""
        return self.decode(obs, jnp.clip(latent, -self.latent_limit, self.latent_limit))


class FrozenBehaviour(NamedTuple):
    """What learners use of the fitted model; those that propose no actions use its scaling only."""

    vae: Any  # a Vae, or None
    scaling: Scaling

    def candidates(self, key: jax.Array, obs: jax.Array, count: int) -> jax.Array:
        """Actions that the behaviour might take: [B, d] -> [B, count, a]."""
        return self.vae.propose(key, obs, count)

    def decode(self, obs: jax.Array, latent: jax.Array) -> jax.Array:
        """Actions from normal draws: obs [B, d], latent [B, n, l] -> [B, n, a]."""
        return self.vae.near(obs, latent)


def propose(
    key: jax.Array, data: Dataset, behaviour: FrozenBehaviour, rows: jax.Array, count: int
) -> jax.Array:
    """Actions that the behaviour might take at the observations `rows` of the data: [B] -> [B, count, a].

    Of those decoded beforehand a random run of neighbours, from the last one on to the first.
    """
    if data.proposal is None:
        return behaviour.candidates(key, data.obs[rows], count)
    known = data.proposal.shape[1]
    first = jax.random.randint(key, (len(rows), 1), 0, known)
    return data.proposal[rows[:, None], (first + jnp.arange(count)[None]) % known]


def vae_loss(vae: Vae, key: jax.Array, obs: jax.Array, action: jax.Array, kl_weight: float) -> jax.Array:
    """Mean squared reconstruction error plus weighted divergence from the prior. Fujimoto et al. 2019."""
    mean, log_deviation = jnp.split(vae.encoder(obs, action), 2, axis=-1)
    log_deviation = jnp.clip(log_deviation, *LOG_DEVIATION_RANGE)
    latent = mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape)
    reconstruction = jnp.mean((vae.decode(obs, latent) - action) ** 2)
    return reconstruction + kl_weight * gaussian_kl(mean, log_deviation)


def fit_behaviour(
    episodes: Episodes,
    labels: Labels,
    seed: int = 0,
    config: Config | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Behaviour:
    """Fit the model to the transitions that remain once every episode is cut at its stop."""
    config = config or Config()
    transitions = Transitions.build(episodes, labels, _no_costs(labels))
    scaling = measure_scaling(transitions)
    data = to_device(transitions, scaling)
    init_key, train_key = jax.random.split(stage_key(seed, "behaviour"))
    vae, optimiser = _start(config, data.obs.shape[-1], data.action.shape[-1], init_key)
    loss = jnp.nan
    for first in range(0, config.updates, CHUNK):
        count = min(CHUNK, config.updates - first)
        vae, optimiser, loss = _train_chunk(config)(train_key, first, count, vae, optimiser, data)
        if not jnp.isfinite(loss):
            raise RciError(
                f"the behaviour model diverged before update {first + count}; lower its learning_rate."
            )
        progress((first + count) / config.updates)
    sizes = {"obs_size": data.obs.shape[-1], "action_size": data.action.shape[-1]}
    fitted = FrozenBehaviour(vae, scaling)
    model = SavedModel("vae", {**asdict(config), **sizes}, to_arrays(fitted))
    info = {"labels_hash": labels.hash, "loss": float(loss)}
    proposal = _proposals(stage_key(seed, "proposals"), fitted, data.obs, config.proposals)
    return Behaviour(model, info, proposal)


def restore_behaviour(behaviour: Behaviour) -> FrozenBehaviour:
    """The networks of a stored behaviour model."""
    settings = dict(behaviour.model.config)
    sizes = settings.pop("obs_size"), settings.pop("action_size")
    return from_arrays(template(*sizes, Config(**settings)), behaviour.model.arrays)


def template(obs_size: int, action_size: int, config: Config | None) -> Any:
    """The shapes of a fitted model, without its numbers; of the scaling alone without a config."""

    def blank() -> FrozenBehaviour:
        scaling = Scaling(
            Normaliser(jnp.zeros(obs_size), jnp.ones(obs_size)),
            jnp.zeros(action_size),
            jnp.ones(action_size),
            jnp.ones(()),
        )
        vae = None if config is None else Vae(jax.random.key(0), obs_size, action_size, config)
        return FrozenBehaviour(vae, scaling)

    return jax.eval_shape(blank)


def _proposals(key: jax.Array, behaviour: FrozenBehaviour, obs: jax.Array, count: int) -> Array | None:
    """Decoded in pieces, so that the layers in between never stand in memory for all observations."""
    if not count:
        return None
    decode = jax.jit(lambda key, obs: behaviour.candidates(key, obs, count))
    pieces = [
        np.asarray(decode(jax.random.fold_in(key, first), obs[first : first + PIECE]))
        for first in range(0, len(obs), PIECE)
    ]
    return np.concatenate(pieces)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _start(config: Config, obs_size: int, action_size: int, key: jax.Array) -> tuple[Vae, Any]:
    vae = Vae(key, obs_size, action_size, config)
    return vae, optax.adam(config.learning_rate).init(vae)


@lru_cache(maxsize=4)
def _train_chunk(config: Config) -> Callable:
    optimise = optax.adam(config.learning_rate)

    @jax.jit
    def run(key: jax.Array, first: int, count: int, vae: Vae, optimiser: Any, data: Dataset) -> tuple:
        def step(i: jax.Array, carry: tuple) -> tuple:
            vae, optimiser, _ = carry
            row_key, noise_key = jax.random.split(jax.random.fold_in(key, first + i))
            index = jax.random.randint(row_key, (config.batch_size,), 0, len(data.row))
            obs, action = data.obs[data.row[index]], data.action[index]
            loss, gradient = jax.value_and_grad(vae_loss)(vae, noise_key, obs, action, config.kl_weight)
            change, optimiser = optimise.update(gradient, optimiser)
            return eqx.apply_updates(vae, change), optimiser, loss

        return jax.lax.fori_loop(0, count, step, (vae, optimiser, jnp.zeros(())))

    return run


def _no_costs(labels: Labels) -> StepCosts:
    """The behaviour model looks at no costs; zeros fill their place."""
    kept = labels.kept_lengths
    return StepCosts(
        cost=np.zeros(by_channel((int(kept.sum()),), labels.channels)),
        lengths=kept,
        episodic_cost=labels.cost,
        return_equivalent=False,
        method="none",
        labels_hash=labels.hash,
        channels=labels.channels,
    )

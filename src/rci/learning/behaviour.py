"""A model of the behaviour that recorded the data: which actions might have been taken at an observation.

It depends on no cost, budget or seed of a learner, so it is trained once per dataset and shared by all of them. So are
its proposals: the actions that it might take at each recorded observation are decoded once and kept with it, and an
update only picks some of them.

`mixture`  Gaussians fitted by likelihood: proposals as wide as the logs, and a density. See `proposals/mixture.py`.
`vae`      the paper's, of BCQ. See `proposals/vae.py`.

Some episodes have no part in the fit; on them is measured how far the proposals reach. See `proposals/reach.py`.

Deviates: trained beforehand and frozen, instead of alongside the critics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.artefacts.models import Behaviour, SavedModel
from rci.data.errors import RciError
from rci.data.options import build_parts, require_positive
from rci.data.record import Array
from rci.data.types import Episodes, Labels, Transitions
from rci.learning.dataset import (
    Dataset,
    Scaling,
    draw_fitted,
    held_out,
    measure_scaling,
    to_device,
    transitions_of,
)
from rci.learning.demonstrations import (
    Emphasis,
    check_demonstrations,
    named_demonstrations,
    no_costs,
    pools_for,
    with_demonstrations,
)
from rci.learning.proposals.mixture import MixtureBehaviour
from rci.learning.proposals.reach import measure_reach
from rci.learning.proposals.vae import Vae
from rci.nets.arrays import from_arrays, to_arrays
from rci.nets.dense import Normaliser
from rci.nets.keys import stage_key
from rci.nets.mixture import Mixture

CHUNK = 500  # updates per compiled call
PIECE = 2048  # observations whose proposals are decoded at once
HELD_OUT = 0.2  # share of the episodes on which the reach is measured, and where thresholds are tried


@dataclass(frozen=True)
class Config:
    """Which model, its sizes and length of training."""

    model: Literal["mixture", "vae"] = "mixture"
    hidden: int = 128
    batch_size: int = 256
    updates: int = 5000
    learning_rate: float = 1e-3
    proposals: int = (
        40  # actions decoded beforehand for each observation; 0 = decode new ones in every update
    )
    components: int = 8  # mixture: how many Gaussians
    # mixture: how many rows an observation is made of, each seen by the same network (see `rci.nets.rows`); 0 = it is
    # seen as a whole; not given: the rows of observations that are tables.
    rows: int | None = None
    noise_limit: float = 1.5  # mixture: how many deviations from its mean a proposal may lie
    latent_per_action: int = 2  # vae
    kl_weight: float = 0.5  # vae
    latent_limit: float = 0.5  # vae: latents are N(0, 1), clipped here; less is closer to the mean

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "batch_size", "updates", "components", "latent_per_action")
        for name in ("noise_limit", "latent_limit"):
            if not getattr(self, name) > 0:
                raise RciError(f"{name} must be more than 0, got {getattr(self, name)}.")
        if self.proposals < 0:
            raise RciError(f"proposals must not be negative, got {self.proposals}.")
        if self.rows is not None and self.rows < 0:
            raise RciError(f"rows must not be negative, got {self.rows}; 0 sees an observation as a whole.")
        if self.rows and self.model == "vae":
            raise RciError("the VAE sees observations as a whole; leave rows out, or use model = 'mixture'.")


def parse_behaviour(options: dict[str, Any]) -> tuple[Config, Emphasis]:
    """Check the settings of a behaviour model: its own, and how often steps are drawn."""
    config, emphasis = build_parts((Config, Emphasis), options, "behaviour")
    return config, emphasis


def build_model(key: jax.Array, obs_size: int, action_size: int, config: Config) -> Any:
    """A model that has learned nothing yet.

    Every kind has `draws(key, shape)`, random numbers that `near(obs, draws)` makes actions of, and `loss(key, obs,
    action)`; one with a density has `log_prob(obs, action)`.
    """
    if config.model == "vae":
        sizes = config.hidden, config.latent_per_action
        return Vae(key, obs_size, action_size, *sizes, config.latent_limit, config.kl_weight)
    density = Mixture(key, obs_size, action_size, config.hidden, config.components, config.rows or 0)
    return MixtureBehaviour(density, config.noise_limit)


class FrozenBehaviour(NamedTuple):
    """What learners use of the fitted model; those that propose no actions use its scaling only."""

    model: Any  # a MixtureBehaviour, a Vae, or None
    scaling: Scaling

    def candidates(self, key: jax.Array, obs: jax.Array, count: int) -> jax.Array:
        """Actions that the behaviour might take, drawn for each observation: [B, d] -> [B, count, a]."""
        return self.model.near(obs, self.model.draws(key, (len(obs), count)))

    def same_draws(self, key: jax.Array, obs: jax.Array, count: int) -> jax.Array:
        """The same with one set of draws for all observations, so that a policy is a function of the observation."""
        return self.from_draws(self.model.draws(key, (count,)), obs)

    def from_draws(self, draws: jax.Array, obs: jax.Array) -> jax.Array:
        """Actions from one set of draws of the model, `model.draws(key, (n,))`, at every observation: [B, n, a]."""
        return self.model.near(obs, jnp.broadcast_to(draws, (len(obs), *draws.shape)))

    def log_prob(self, obs: jax.Array, action: jax.Array) -> jax.Array | None:
        """log b(action | obs), [B, n, a] -> [B, n]; None where the model has no density."""
        return self.model.log_prob(obs, action) if hasattr(self.model, "log_prob") else None


def propose(
    key: jax.Array, data: Dataset, behaviour: FrozenBehaviour, rows: jax.Array, count: int
) -> jax.Array:
    """Actions that the behaviour might take at the observations `rows` of the data: [B] -> [B, count, a].

    Of those decoded beforehand a random run of neighbours, from the last one on to the first.
    """
    if data.proposal is None:
        return behaviour.candidates(key, data.obs[rows], count)
    stored = data.proposal.shape[1]
    first = jax.random.randint(key, (len(rows), 1), 0, stored)
    return data.proposal[rows[:, None], (first + jnp.arange(count)[None]) % stored]


def fit_behaviour(
    episodes: Episodes,
    labels: Labels,
    seed: int = 0,
    config: Config | None = None,
    progress: Callable[[float], None] = lambda share: None,
    demonstrations: Episodes | None = None,
    emphasis: Emphasis | None = None,
) -> Behaviour:
    """Fit the model to the transitions that remain once every episode is cut at its stop.

    demonstrations: what a person drove, learned from as well. emphasis: how often which steps are drawn.
    """
    config, emphasis = config or Config(), emphasis or Emphasis()
    config = replace(config, rows=rows_of_obs(config, episodes.obs.shape[1:]))
    transitions = logged = Transitions.build(episodes, labels, no_costs(labels))
    if demonstrations is not None:
        check_demonstrations(demonstrations, episodes)
        transitions = with_demonstrations(logged, demonstrations, labels)
    scaling = measure_scaling(transitions, config.rows or 0)
    apart = episodes_apart(len(episodes), seed)
    data = to_device(transitions, scaling)._replace(
        fitted=transitions_of(~apart, logged.lengths),
        pools=pools_for(emphasis, logged, len(transitions) - len(logged), ~apart),
    )
    init_key, train_key = jax.random.split(stage_key(seed, "behaviour"))
    model, optimiser = _start(config, data.obs.shape[-1], data.action.shape[-1], init_key)
    loss = jnp.nan
    for first in range(0, config.updates, CHUNK):
        count = min(CHUNK, config.updates - first)
        model, optimiser, loss = _train_chunk(config)(train_key, first, count, model, optimiser, data)
        if not jnp.isfinite(loss):
            raise RciError(
                f"the behaviour model diverged before update {first + count}; lower its learning_rate."
            )
        progress((first + count) / config.updates)
    sizes = {"obs_size": data.obs.shape[-1], "action_size": data.action.shape[-1]}
    fitted = FrozenBehaviour(model, scaling)
    saved = SavedModel(config.model, {**asdict(config), **sizes}, to_arrays(fitted))
    reach = measure_reach(stage_key(seed, "reach"), fitted, data, logged.lengths, apart, episodes)
    info = {
        "labels_hash": labels.hash,
        "loss": float(loss),
        "split": seed,
        "rows": config.rows,
        "reach": reach,
        **named_demonstrations(demonstrations, emphasis),
    }
    proposal = _proposals(stage_key(seed, "proposals"), fitted, data.obs, config.proposals)
    return Behaviour(saved, info, proposal)


def rows_of_obs(config: Config, shape: tuple[int, ...]) -> int:
    """Of how many rows an observation of this shape is made, as the settings say; 0 = it is seen as a whole."""
    if config.rows is None:
        return shape[0] if config.model == "mixture" and len(shape) == 2 and shape[0] > 1 else 0
    features = math.prod(shape)
    if config.rows and features % config.rows:
        raise RciError(
            f"observations of {features} features are not made of {config.rows} rows of one length; set rows to a "
            "number that divides it, or to 0."
        )
    return config.rows


def episodes_apart(episodes: int, split: int) -> Array:
    """Which episodes have no part in the fit, [N]: none where there is but one."""
    return held_out(episodes, HELD_OUT, split) if episodes > 1 else np.zeros(1, bool)


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
        model = None if config is None else build_model(jax.random.key(0), obs_size, action_size, config)
        return FrozenBehaviour(model, scaling)

    return jax.eval_shape(blank)


def _proposals(key: jax.Array, behaviour: FrozenBehaviour, obs: jax.Array, count: int) -> Array | None:
    """Decoded in pieces, so that the layers in between never stand in memory for all observations."""
    if not count:
        return None
    # An update takes neighbours: shuffled, they are of all Gaussians.
    order = jax.random.permutation(key, count)
    decode = jax.jit(lambda key, obs: behaviour.candidates(key, obs, count)[:, order])
    pieces = [
        np.asarray(decode(jax.random.fold_in(key, first), obs[first : first + PIECE]))
        for first in range(0, len(obs), PIECE)
    ]
    return np.concatenate(pieces)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _start(config: Config, obs_size: int, action_size: int, key: jax.Array) -> tuple[Any, Any]:
    model = build_model(key, obs_size, action_size, config)
    return model, optax.adam(config.learning_rate).init(model)


@lru_cache(maxsize=4)
def _train_chunk(config: Config) -> Callable:
    optimise = optax.adam(config.learning_rate)

    @jax.jit
    def run(key: jax.Array, first: int, count: int, model: Any, optimiser: Any, data: Dataset) -> tuple:
        def step(i: jax.Array, carry: tuple) -> tuple:
            model, optimiser, _ = carry
            row_key, noise_key = jax.random.split(jax.random.fold_in(key, first + i))
            index = draw_fitted(row_key, data, config.batch_size)
            obs, action = data.obs[data.row[index]], data.action[index]
            loss, gradient = jax.value_and_grad(lambda model: model.loss(noise_key, obs, action))(model)
            change, optimiser = optimise.update(gradient, optimiser)
            return eqx.apply_updates(model, change), optimiser, loss

        return jax.lax.fori_loop(0, count, step, (model, optimiser, jnp.zeros(())))

    return run

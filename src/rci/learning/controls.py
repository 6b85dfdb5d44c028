"""Controls of a baseline, for those who think that it was weak: targets over several recorded steps, and a behaviour
model that learns with the critics.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rci.data.errors import RciError
from rci.learning.dataset import Batch
from rci.learning.proposals.vae import Vae


def summed_steps(key: jax.Array, rows: int, cost_steps: int, cost_lambda: float, longest: int) -> jax.Array:
    """How many recorded steps the cost target of each row sums, [rows]: `cost_steps`, 0 = to the end of the episode.

    With `cost_lambda` their number is geometric: each further step with this chance, as in TD(lambda).
    """
    if cost_lambda > 0:
        steps = jax.random.geometric(jax.random.fold_in(key, 6), 1.0 - cost_lambda, (rows,))
    else:
        steps = jnp.full(rows, cost_steps or longest + 1)
    return steps.astype(jnp.int32)


def to_learn_alongside(model: Any) -> Vae:
    """The behaviour model, if it is one that can learn with the critics."""
    if not isinstance(model, Vae):
        raise RciError(
            "alongside trains a behaviour model with the critics, which only the vae can do; set behaviour.model=vae."
        )
    return model


def own_proposals(key: jax.Array, vae: Vae, batch: Batch) -> Batch:
    """The batch with candidates of a model that still learns, in place of those that the frozen one proposed."""
    observations = {
        "candidate": batch.obs,
        "next_candidate": batch.next_obs,
        "cost_candidate": batch.next_obs,
        "initial_candidate": batch.initial_obs,
    }
    proposed: dict[str, Any] = {}
    for own_key, (name, obs) in zip(jax.random.split(key, len(observations)), observations.items()):
        old = getattr(batch, name)
        if old is not None:
            proposed[name] = jax.lax.stop_gradient(
                vae.near(obs, vae.draws(own_key, (len(obs), old.shape[1])))
            )
    return batch._replace(**proposed)

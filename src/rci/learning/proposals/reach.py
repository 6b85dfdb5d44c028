"""How far the proposals of a behaviour model reach: no policy that chooses among them can do anything else.

Measured on episodes that had no part in the fit, for each behaviour that recorded them. Distances are Euclidean, with
actions in [-1, 1]:

nearest       from the recorded action to the nearest of 40 proposals
nearest_own   from one more proposal to the nearest of 40 others: what `nearest` is if the model is right
spread        of proposals at one observation (standard deviation), and of all recorded actions

A model whose proposals lie close together and away from what was recorded has collapsed: `nearest` is many times
`nearest_own`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.record import Array
from rci.data.types import Episodes
from rci.learning.dataset import Dataset

PROPOSALS = 40
AT_MOST = 2000  # transitions of each behaviour that are looked at
POOR = 3.0  # how many times farther than its own draws recorded actions may lie
LEAST = 0.05  # a distance that does not matter, whatever the model thinks of itself


def measure_reach(
    key: jax.Array, behaviour: Any, data: Dataset, lengths: Array, apart: Array, episodes: Episodes
) -> dict[str, dict[str, Any]]:
    """The figures above by the name of the behaviour that recorded, "all" first; none where nothing was held out."""
    source = np.repeat(np.where(apart, np.asarray(episodes.source), -1), lengths)
    names = episodes.sources if len(episodes.sources) > 1 else ()
    groups = {"all": np.flatnonzero(source >= 0)}
    groups |= {name: np.flatnonzero(source == i) for i, name in enumerate(names)}
    look = jax.jit(lambda key, obs, action: _figures(key, behaviour, obs, action))
    reach = {}
    for number, (name, rows) in enumerate(groups.items()):
        if len(rows) == 0:
            continue
        chosen = np.random.default_rng(number).permutation(rows)[:AT_MOST]
        index = jnp.asarray(np.resize(chosen, AT_MOST), jnp.int32)  # of one size: compiled once
        obs, action = data.obs[data.row[index]], data.action[index]
        found = look(jax.random.fold_in(key, number), obs, action)
        each = {what: np.asarray(value, np.float64)[: len(chosen)] for what, value in found.items()}
        reach[name] = {
            "transitions": len(chosen),
            "log_likelihood": float(each["log_likelihood"].mean()) if "log_likelihood" in each else None,
            "nearest": float(each["nearest"].mean()),
            "nearest_own": float(each["nearest_own"].mean()),
            "spread_of_proposals": float(np.sqrt(each["variance"].mean())),
            "spread_of_actions": float(
                np.sqrt(np.asarray(action, np.float64)[: len(chosen)].var(axis=0).mean())
            ),
        }
    return reach


def describe_reach(reach: dict[str, dict[str, Any]]) -> str:
    """A sentence about behaviours whose actions the proposals do not reach; empty where they reach all."""
    poor = [
        (name, figures)
        for name, figures in reach.items()
        if figures["nearest"] > max(POOR * figures["nearest_own"], LEAST)
        and (name != "all" or len(reach) == 1)
    ]
    if not poor:
        return ""
    whose = ", ".join(
        f"{name} ({figures['nearest']:.2f} away, its own draws {figures['nearest_own']:.2f})"
        for name, figures in poor
    )
    return (
        f"The behaviour model reaches what was recorded poorly for {whose}: the nearest of {PROPOSALS} proposals lies "
        "that far from the recorded action, so a policy can hardly choose it."
    )


def _figures(key: jax.Array, behaviour: Any, obs: jax.Array, action: jax.Array) -> dict[str, jax.Array]:
    """One number for each observation."""
    draw_key, own_key = jax.random.split(key)
    drawn = behaviour.candidates(draw_key, obs, PROPOSALS + 1)
    # One of them stands for an action that the behaviour took; of the others it should be as near as recorded ones.
    which = jax.random.randint(own_key, (len(obs), 1), 0, PROPOSALS + 1)
    others = (which + 1 + jnp.arange(PROPOSALS)[None]) % (PROPOSALS + 1)
    own_draw = jnp.take_along_axis(drawn, which[..., None], axis=1)
    proposal = jnp.take_along_axis(drawn, others[..., None], axis=1)
    figures = {
        "nearest": _nearest(action[:, None], proposal),
        "nearest_own": _nearest(own_draw, proposal),
        "variance": jnp.mean(jnp.var(proposal, axis=1), axis=-1),
    }
    density = behaviour.log_prob(obs, action[:, None])
    return figures if density is None else {**figures, "log_likelihood": density[:, 0]}


def _nearest(one: jax.Array, others: jax.Array) -> jax.Array:
    """[B, 1, a], [B, n, a] -> [B]."""
    return jnp.min(jnp.linalg.norm(jnp.broadcast_to(one, others.shape) - others, axis=-1), axis=-1)

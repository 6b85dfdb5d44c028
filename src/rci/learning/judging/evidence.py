"""What logs say before they are asked about any policy: models of the world and of the behaviour, and what is usual."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.artefacts.models import Behaviour, Policy, SavedModel
from rci.data.errors import RciError
from rci.data.options import build_parts, require_positive
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels, Transitions
from rci.learning.behaviour import Config as BehaviourConfig
from rci.learning.behaviour import (
    FrozenBehaviour,
    fit_behaviour,
    restore_behaviour,
    rows_of_obs,
)
from rci.learning.dataset import Dataset, Scaling, flat_features, measure_scaling, to_device
from rci.learning.demonstrations import no_costs
from rci.learning.judging.hazard import Steps, steps_of
from rci.learning.judging.simulation.trials import Worlds, fit_worlds, limit_hazards
from rci.learning.judging.simulation.world import Settings as WorldSettings
from rci.learning.judging.support import Recorded, measure_recorded
from rci.nets.keys import stage_key

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Settings:
    """How much is asked of the logs."""

    models: int = 3  # of the world
    model_updates: int = 4_000
    hidden: int = 128  # of models
    members: int = 3  # critics
    updates: int = 3_000  # of critics
    behaviour_updates: int = 3_000  # where no behaviour model is given

    def __post_init__(self) -> None:
        require_positive(self, "models", "model_updates", "hidden", "members", "updates", "behaviour_updates")


@dataclass(frozen=True)
class Evidence:
    """What logs say before they are asked about a policy; the same for all policies."""

    data: Dataset
    scaling: Scaling
    worlds: Worlds
    recorded: Recorded
    steps: Steps
    log_behaviour: Array | None  # of recorded actions; None where the behaviour model has no density
    obs: Array  # as recorded
    lengths: Array
    stopped: Array
    earned: Array  # of each episode, until its stop or its end
    settings: Settings
    seed: int
    behaviour: FrozenBehaviour
    bias: Mapping[str, float] = field(default_factory=dict)  # of methods, asked about that behaviour


def evidence_of(
    episodes: Episodes,
    labels: Labels,
    seed: int = 0,
    progress: Progress = lambda share: None,
    behaviour: Behaviour | None = None,
    **settings: Any,
) -> Evidence:
    """What the logs say, whatever the policy: models of the world and of the behaviour, and what is usual in them."""
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    (chosen,) = build_parts((Settings,), settings, "estimating")
    _check_logs(episodes, labels)
    if behaviour is None:
        config = BehaviourConfig(updates=chosen.behaviour_updates, proposals=0)
        behaviour = fit_behaviour(episodes, labels, seed, config)
    elif behaviour.info["labels_hash"] != labels.hash:
        raise RciError("the behaviour model was fitted to other labels; fit it again with fit_behaviour.")
    transitions = Transitions.build(episodes, labels, no_costs(labels))
    frozen, rows = restore_behaviour(behaviour), rows_of_obs(BehaviourConfig(), episodes.obs.shape[1:])
    scaling = measure_scaling(transitions, rows)
    data, lengths = to_device(transitions, scaling), transitions.lengths
    limits = limit_hazards(lengths, ~(labels.stopped | episodes.terminated))
    world = WorldSettings(updates=chosen.model_updates, hidden=chosen.hidden)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    seen, done = np.asarray(data.obs)[np.asarray(data.row)], np.asarray(data.action)
    return Evidence(
        data=data,
        scaling=scaling,
        worlds=fit_worlds(data, lengths, limits, rows, chosen.models, seed, world, progress),
        recorded=measure_recorded(seen, done, episode, seed),
        steps=steps_of(data, lengths, len(limits)),
        log_behaviour=_log_behaviour(frozen, transitions),
        obs=flat_features(transitions.obs[transitions.seen]),
        lengths=lengths,
        stopped=labels.stopped,
        earned=np.bincount(episode, weights=np.asarray(transitions.reward, np.float64)),
        settings=chosen,
        seed=seed,
        behaviour=frozen,
    )


def behaviour_policy(frozen: FrozenBehaviour) -> Policy:
    """The fitted behaviour as a policy: every action is a draw of its own."""
    keys = itertools.count()
    centre = frozen.scaling.action_centre

    @jax.jit
    def draw(key: jax.Array, obs: jax.Array) -> jax.Array:
        return frozen.scaling.decode_action(frozen.candidates(key, frozen.scaling.obs(obs), 1)[:, 0])

    def step(seed: int, memory: Any, obs: Array) -> tuple[Array, Any]:
        key = jax.random.fold_in(stage_key(seed, "behaviour policy"), next(keys))
        return np.asarray(draw(key, jnp.asarray(obs))), memory

    info = {"obs_size": len(frozen.scaling.obs.mean), "action_size": len(centre)}
    return Policy(SavedModel("behaviour", {}, {}), info, step=step)


def _log_behaviour(frozen: FrozenBehaviour, transitions: Transitions) -> Array | None:
    """Of recorded actions, [N], in the networks' own scale; None where the model has no density."""
    obs = frozen.scaling.obs(jnp.asarray(flat_features(transitions.obs[transitions.row])))
    action = frozen.scaling.encode_action(jnp.asarray(flat_features(transitions.action)))
    density = frozen.log_prob(obs, action[:, None])
    return None if density is None else np.asarray(density[:, 0], np.float64)


def _check_logs(episodes: Episodes, labels: Labels) -> None:
    labels.check_parent(episodes)
    if not np.issubdtype(episodes.action.dtype, np.floating):
        raise RciError(
            f"the actions are {episodes.action.dtype}, but policies are estimated for continuous ones; if yours are "
            "quantities, convert them to float32."
        )
    if len(episodes) < 2:
        raise RciError(
            "there is one episode, and from one nothing can be said of the next; an estimate needs at least two, and "
            "hundreds to mean something."
        )

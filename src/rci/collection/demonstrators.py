"""Demonstrators: PPO policies of growing skill that record data, and how they are trained on a task.

They are trained on the task's reward alone. The rule of what is unsafe is looked at for the training curve only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from rci.collection.ppo import Actor, Config, Ppo, Rollout, blank_actor, make, shuffled_rows
from rci.data.errors import RciError
from rci.data.models import Demonstrators, SavedModel
from rci.data.record import Array, expect
from rci.nets.arrays import from_arrays, to_arrays
from rci.nets.keys import stage_key
from rci.tasks import get, make_vec
from rci.tasks.base import BehaviourPolicy
from rci.tasks.rollout import TRAINING, episode_seeds


class Tally(NamedTuple):
    """Episodes so far: those that still run, one entry per world, or those that have ended."""

    returns: Array
    lengths: Array
    violated: Array


def train_demonstrators(
    task_name: str,
    seed: int = 0,
    config: Config | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Demonstrators:
    """Train PPO on a task's reward and keep policies from along the way; same seed, same bits.

    The curve has a point for every iteration in which episodes ended: their mean return and length, and how many of
    them were ever unsafe by the task's own rule.
    """
    config = config or Config()
    task = get(task_name)
    envs = make_vec(task_name, config.num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    obs_size, action_size = int(np.prod(task.obs_shape)), check_actions(task_name, envs)
    ppo = make(config, obs_size, action_size)
    init_key, act_key = jax.random.split(stage_key(seed, "ppo"))
    rng = np.random.default_rng([seed, TRAINING])
    state, tally = ppo.init(init_key), no_episodes(config.num_envs)
    obs, _ = envs.reset(seed=episode_seeds(seed, TRAINING, 0, config.num_envs))  # type: ignore[arg-type]
    curve: dict[str, list[float]] = {name: [] for name in ("steps", "return", "length", "violation_rate")}
    kept: list[Actor] = []
    checkpoints: list[dict[str, Any]] = []
    for iteration in range(1, config.iterations + 1):
        steps = iteration * config.batch_size
        act = partial(_act, ppo, act_key, steps, state.actor)
        rollout, obs = gather(envs, act, obs, config.rollout_length, action_size)
        state, info = ppo.improve(state, rollout, shuffled_rows(rng, config))
        if not all(np.isfinite(number) for number in info):
            raise RciError(f"PPO diverged before step {steps}; lower its learning_rate.")
        unsafe = task.unsafe(rollout.next_obs.reshape(*rollout.reward.shape, *task.obs_shape))
        ended = (rollout.terminated + rollout.truncated) > 0
        tally, finished = count_episodes(tally, rollout.reward, unsafe, ended)
        if len(finished.returns):
            for name, value in zip(curve, (steps, *(float(column.mean()) for column in finished))):
                curve[name].append(value)
        if iteration in checkpoint_iterations(config):
            kept.append(state.actor)
            checkpoints.append({"steps": steps, "return": curve["return"][-1] if curve["return"] else None})
        progress(iteration / config.iterations)
    arrays = to_arrays(jax.tree.map(lambda *leaves: np.stack(leaves), *kept))
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise RciError("PPO diverged: a network is not finite; lower its learning_rate.")
    facts = {
        "task": task_name,
        "seed": seed,
        "curve": curve,
        "checkpoints": checkpoints,
        "obs_shape": list(task.obs_shape),
        "action_size": action_size,
    }
    return Demonstrators(SavedModel("ppo", asdict(config), arrays), facts)


def behaviours(demonstrators: Demonstrators) -> dict[str, BehaviourPolicy]:
    """One behaviour per checkpoint, ppo-1 the least trained; its luck is the generator's that it is given."""
    expect(Demonstrators, demonstrators=demonstrators)
    info, config = demonstrators.info, Config(**demonstrators.model.config)
    blank = blank_actor(config, int(np.prod(info["obs_shape"])), info["action_size"])
    count = len(info["checkpoints"])
    stacked = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype), blank)
    actors = from_arrays(stacked, demonstrators.model.arrays)
    leaves, tree = jax.tree.flatten(actors)
    each = [jax.tree.unflatten(tree, [leaf[i] for leaf in leaves]) for i in range(count)]
    return {f"ppo-{i}": partial(_sample, actor) for i, actor in enumerate(each, 1)}


def checkpoint_iterations(config: Config) -> list[int]:
    """After which iterations, counted from 1, a policy is kept: evenly spread, and the last one always."""
    return [round(config.iterations * i / config.checkpoints) for i in range(1, config.checkpoints + 1)]


def gather(
    envs: VectorEnv, act: Callable[[int, Array], Array], obs: Array, length: int, action_size: int
) -> tuple[Rollout, Array]:
    """`length` steps of every world from `obs` on, and what is seen after them. Worlds that end start anew."""
    count = envs.num_envs
    size = obs.size // count
    rollout = Rollout(
        obs=np.empty((length, count, size), np.float32),
        action=np.empty((length, count, action_size), np.float32),
        reward=np.empty((length, count), np.float32),
        next_obs=np.empty((length, count, size), np.float32),
        terminated=np.empty((length, count), np.float32),
        truncated=np.empty((length, count), np.float32),
    )
    for step in range(length):
        rollout.obs[step] = obs.reshape(count, size)
        rollout.action[step] = act(step, rollout.obs[step])
        obs, reward, terminated, truncated, info = envs.step(np.clip(rollout.action[step], -1.0, 1.0))
        rollout.next_obs[step] = obs.reshape(count, size)
        if "final_obs" in info:
            ended = info["_final_obs"]
            rollout.next_obs[step, ended] = info["final_obs"][ended].reshape(-1, size)
        for array, now in zip(
            (rollout.reward, rollout.terminated, rollout.truncated), (reward, terminated, truncated)
        ):
            array[step] = now
    return rollout, obs


def no_episodes(count: int) -> Tally:
    """Episodes that are about to begin."""
    return Tally(np.zeros(count), np.zeros(count, np.int64), np.zeros(count, bool))


def count_episodes(running: Tally, reward: Array, unsafe: Array, ended: Array) -> tuple[Tally, Tally]:
    """Carry episodes on by the steps [T, n]: those that still run, and those that ended, in that order."""
    returns, lengths, violated = (column.copy() for column in running)
    finished = [no_episodes(0)]
    for now, danger, end in zip(reward, unsafe, ended):
        returns += now
        lengths += 1
        violated |= danger
        if end.any():
            finished.append(Tally(returns[end], lengths[end], violated[end]))
            returns[end], lengths[end], violated[end] = 0.0, 0, False
    return Tally(returns, lengths, violated), Tally(*(np.concatenate(column) for column in zip(*finished)))


def check_actions(task_name: str, envs: VectorEnv) -> int:
    """The number of actions of a task, if PPO can choose them."""
    space = envs.single_action_space
    if (
        not isinstance(space, gymnasium.spaces.Box)
        or len(space.shape) != 1
        or (space.low != -1).any()
        or (space.high != 1).any()
    ):
        raise RciError(f"PPO needs a row of actions from -1 to 1, but those of {task_name!r} are {space}.")
    return int(space.shape[0])


def _act(ppo: Ppo, key: jax.Array, steps: int, actor: Actor, step: int, obs: Array) -> Array:
    return np.asarray(ppo.act(key, steps + step, actor, obs))


def _sample(actor: Actor, rng: np.random.Generator, obs: Array) -> Array:
    """A BehaviourPolicy once the actor is bound."""
    mean = np.asarray(_mean(actor, obs.reshape(len(obs), -1)))
    noise = rng.standard_normal(mean.shape, np.float32)
    return np.clip(mean + np.exp(np.asarray(actor.log_deviation)) * noise, -1.0, 1.0)


@jax.jit
def _mean(actor: Actor, obs: jax.Array) -> jax.Array:
    return actor.mean(obs)

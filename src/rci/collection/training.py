"""PPO at work in a task's worlds: the loop by which demonstrators and informed drivers are trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from rci.collection.ppo import Actor, Config, Moments, Networks, Ppo, Rollout, make, shuffled_rows
from rci.data.errors import RciError
from rci.data.record import Array
from rci.nets.keys import stage_key
from rci.tasks import get, make_vec
from rci.tasks.rollout import episode_seeds


class Start(NamedTuple):
    """What a training goes on from: networks, and the scaling of observations that they are used to."""

    networks: Networks
    obs_moments: Moments


class Training(NamedTuple):
    """A finished training: how it ended, the policies kept along the way, and what their episodes were like."""

    end: Start
    kept: list[Actor]
    curve: dict[str, list[float]]
    checkpoints: list[dict[str, Any]]


class Tally(NamedTuple):
    """Episodes so far: those that still run, one entry per world, or those that have ended."""

    returns: Array
    lengths: Array
    violated: Array


def train(
    task_name: str,
    seed: int,
    purpose: int,
    config: Config,
    price: float = 0.0,
    start: Start | None = None,
    world: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Training:
    """Train PPO on a task's reward; same seed, same bits.

    price: what a violation costs. If it costs anything, it also ends what is to be earned: every unsafe step counts as
    the end of an episode, although the world goes on. purpose: the stream of episodes. start: another training that
    this one goes on from. world: changes of the task's configuration.

    The curve has a point for every iteration in which episodes ended: their mean return and length, and how many of
    them were ever unsafe by the task's own rule. Prices do not count in it.
    """
    task = get(task_name)
    envs = make_vec(
        task_name, config.num_envs, **{**(world or {}), "autoreset_mode": AutoresetMode.SAME_STEP}
    )
    obs_size, action_size = int(np.prod(task.obs_shape)), check_actions(task_name, envs)
    ppo = make(config, obs_size, action_size)
    init_key, act_key = jax.random.split(stage_key(seed, "ppo" if start is None else "ppo, going on"))
    rng = np.random.default_rng([seed, purpose])
    state, tally = ppo.init(init_key), no_episodes(config.num_envs)
    if start is not None:
        networks = with_noise(start.networks, config.initial_deviation)
        state = state._replace(networks=networks, obs_moments=start.obs_moments)
    obs, _ = envs.reset(seed=episode_seeds(seed, purpose, 0, config.num_envs))  # type: ignore[arg-type]
    curve: dict[str, list[float]] = {name: [] for name in ("steps", "return", "length", "violation_rate")}
    kept: list[Actor] = []
    checkpoints: list[dict[str, Any]] = []
    for iteration in range(1, config.iterations + 1):
        steps = iteration * config.batch_size
        act = partial(_act, ppo, act_key, steps, state.actor)
        rollout, obs = gather(envs, act, obs, config.rollout_length, action_size)
        unsafe = task.unsafe(rollout.next_obs.reshape(*rollout.reward.shape, *task.obs_shape))
        ended = (rollout.terminated + rollout.truncated) > 0
        tally, finished = count_episodes(tally, rollout.reward, unsafe, ended)
        if price > 0.0:
            rollout = priced(rollout, unsafe, price)
        state, info = ppo.improve(state, rollout, shuffled_rows(rng, config))
        if not all(np.isfinite(number) for number in info):
            raise RciError(f"PPO diverged before step {steps}; lower its learning_rate.")
        if len(finished.returns):
            for name, value in zip(curve, (steps, *(float(column.mean()) for column in finished))):
                curve[name].append(value)
        if iteration in checkpoint_iterations(config):
            kept.append(state.actor)
            checkpoints.append({"steps": steps, "return": curve["return"][-1] if curve["return"] else None})
        progress(iteration / config.iterations)
    envs.close()
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept)):
        raise RciError("PPO diverged: a network is not finite; lower its learning_rate.")
    return Training(Start(state.networks, state.obs_moments), kept, curve, checkpoints)


def with_noise(networks: Networks, least: float) -> Networks:
    """Networks whose policy tries things out again: with a deviation of at least so much in every action."""
    noise = jnp.maximum(networks.log_deviation, math.log(least))
    return eqx.tree_at(lambda found: found.log_deviation, networks, noise)


def priced(rollout: Rollout, unsafe: Array, price: float) -> Rollout:
    """The steps as somebody sees them to whom every unsafe one [T, n] costs a price, and nothing comes after it."""
    return rollout._replace(
        reward=rollout.reward - np.float32(price) * unsafe,
        terminated=np.maximum(rollout.terminated, unsafe.astype(np.float32)),
    )


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

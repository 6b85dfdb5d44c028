"""Roll a policy out in the batched simulator and score it with the task's own rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rci.data.artefacts.models import Policy
from rci.data.errors import RciError, unknown_name
from rci.data.record import Array, expect
from rci.data.types import Episodes, Oracle, Scores, first_true
from rci.tasks import get, make_vec, observe_truth
from rci.tasks.base import Task
from rci.tasks.rollout import EVALUATION, REFERENCE, ROLLOUTS, SELECTION, episode_seeds, record

PURPOSES = {"evaluation": EVALUATION, "selection": SELECTION}
BATCH = 1000  # worlds that run at once; episode i is the same in any batch


def evaluate(
    policy: Policy,
    task: str,
    episodes: int = 1000,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
    purpose: str = "evaluation",
    **task_config: Any,
) -> Scores:
    """Scores of fresh episodes, none of which `collect` could have recorded. Nothing is stopped early.

    A policy that is chosen by its scores must be chosen by other episodes than those that it is reported on: those of
    the purpose "selection".

    Where the task has several kinds of danger, `scores.info["channel_violation_rate"]` says how often each was the
    first violation of an episode, which is what a budget bounds, and `channel_any_rate` how often it was there at all.
    """
    expect(Policy, policy=policy)
    if episodes < 1:
        raise RciError(f"at least one episode must be evaluated, got {episodes}.")
    if purpose not in PURPOSES:
        raise unknown_name("purpose of an evaluation", purpose, PURPOSES)
    parts, violated = [], []
    for first in range(0, episodes, BATCH):
        count = min(BATCH, episodes - first)
        seeds = episode_seeds(seed, PURPOSES[purpose], first, count)
        recorded = _record(policy, task, seeds, **task_config)
        parts.append(score_episodes(recorded, observe_truth(get(task), recorded)))
        if get(task).channels:
            violated.append(channel_violations(get(task), recorded))
        progress((first + count) / episodes)
    info: dict[str, Any] = {"task": task, "seed": seed, "policy_hash": policy.hash}
    if violated:
        for number, name in enumerate(("channel_violation_rate", "channel_any_rate")):
            rates = np.concatenate([both[number] for both in violated]).mean(axis=0).tolist()
            info[name] = dict(zip(get(task).channels, rates))
    return join_scores(parts, info)


def score_driver(
    act: Callable[[Array], Array],
    task: str,
    episodes: int = 1000,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
    **task_config: Any,
) -> Scores:
    """Scores of a driver instead of a policy: a script, or one that knows the truth. act: obs [n, ...] -> action.

    Its episodes are those of references, which no policy is tested on. `scores.info` has the share of episodes that
    the simulator ended, and of steps that bear one of the task's marks.
    """
    parts, ended, marked = [], 0, dict.fromkeys(get(task).marks, 0)
    for first in range(0, episodes, BATCH):
        count = min(BATCH, episodes - first)
        envs = make_vec(task, count, **task_config)
        recorded = record(envs, act, episode_seeds(seed, REFERENCE, first, count), task)
        envs.close()
        parts.append(score_episodes(recorded, observe_truth(get(task), recorded)))
        ended += int(recorded.terminated.sum())
        for name, mark in get(task).marks.items():
            marked[name] += int(mark(recorded.obs[recorded.next_rows]).sum())
        progress((first + count) / episodes)
    scores = join_scores(parts, {"task": task, "seed": seed, "terminated_share": ended / episodes})
    scores.info["marks"] = {name: number / int(scores.lengths.sum()) for name, number in marked.items()}
    return scores


def join_scores(parts: Sequence[Scores], info: dict[str, Any]) -> Scores:
    """Several batches of episodes as one."""
    names = ("returns", "returns_until_stop", "first_violation", "lengths")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Scores(**joined, info=info)


def record_policy(policy: Policy, task: str, episodes: int, seed: int, **task_config: Any) -> Episodes:
    """Whole episodes of a policy, other ones than those that it is evaluated on."""
    return _record(policy, task, episode_seeds(seed, ROLLOUTS, 0, episodes), **task_config)


def _record(policy: Policy, task: str, seeds: list[int], **task_config: Any) -> Episodes:
    features = int(np.prod(get(task).obs_shape))
    if policy.info["obs_size"] != features:
        raise RciError(
            f"the policy was trained on {policy.info['obs_size']} features, but {task!r} has {features}."
        )
    memory = policy.begin(len(seeds))

    def act(obs: Array) -> Array:
        nonlocal memory
        if policy.step is None:
            return policy.act(obs)
        action, memory = policy.step(0, memory, obs.reshape(len(obs), -1))
        return action

    return record(make_vec(task, len(seeds), **task_config), act, seeds, task)


def channel_violations(task: Task, episodes: Episodes) -> tuple[Array, Array]:
    """Whether each kind of danger was there at the first violation of each episode, and after any step: [N, K] each.

    At the first violation a monitor would stop the episode, so that is what labels and budgets are about.
    """
    seen = episodes.obs[episodes.next_rows]
    fired = np.stack([rule(seen) for rule in task.channels.values()], axis=-1)
    first = first_true(np.asarray(fired.any(axis=-1)), episodes.lengths)
    at_first = fired[episodes.step_offset[:-1] + np.maximum(first, 0)] & (first >= 0)[:, None]
    return at_first, np.logical_or.reduceat(fired, episodes.step_offset[:-1])


def score_episodes(episodes: Episodes, oracle: Oracle) -> Scores:
    """Returns over the full episode and until the first unsafe transition, that one included."""
    first = oracle.first_unsafe()
    reward = episodes.reward.astype(np.float64)
    step = np.arange(len(reward)) - np.repeat(episodes.step_offset[:-1], episodes.lengths)
    stop = np.repeat(np.where(first >= 0, first, episodes.lengths), episodes.lengths)
    start = episodes.step_offset[:-1]
    return Scores(
        returns=np.add.reduceat(reward, start),
        returns_until_stop=np.add.reduceat(np.where(step <= stop, reward, 0.0), start),
        first_violation=first,
        lengths=episodes.lengths,
    )

"""Small problems whose constrained optimum is known, one action in [-1, 1] each."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from conftest import ragged

from rci.data.types import Episodes, Labels

IMITATORS = ("bc", "bc-safe")  # they do what was done, not what pays


def one_step(count=400):
    """The action pays itself, and above 0 it is unsafe. Safe optimum 0, greedy optimum 1."""
    episodes = one_action(count, lambda action: action)
    return episodes, Labels.for_episodes(episodes, np.where(episodes.action[:, 0] > 0, 0, -1))


def two_actions(count=400):
    """Only -1 and 1 were ever taken: 1 pays five times as much, and is unsafe."""
    episodes = one_action(count, lambda action: 0.6 + 0.4 * action, choices=(-1.0, 1.0))
    return episodes, Labels.for_episodes(episodes, np.where(episodes.action[:, 0] > 0, 0, -1))


def graded(count=400):
    """It pays 2a - a^2, and a severity of a where a is positive: the optimum for budget d is a = d."""
    episodes = one_action(count, lambda action: 2 * action - action**2)
    action = episodes.action[:, 0].astype(np.float64)
    severity = np.maximum(action, 0.0)
    return episodes, Labels.for_episodes(episodes, np.where(severity > 0, 0, -1), severity)


def corridor(count=200):
    """From the start, a > 0 takes the shortcut: 1 in all, unsafe at its second step. a < 0 takes the detour: 0.6.

    Where one is stands in the observation; after the first step the action changes nothing.
    """
    rng = np.random.default_rng(3)
    action = rng.uniform(-1, 1, (count, 3, 1)).astype(np.float32)
    short = action[:, 0, 0] > 0
    place = np.where(short[:, None], [0, 1, 4, 4], [0, 2, 3, 4])
    reward = np.where(short[:, None], [0.0, 1.0, 0.0], [0.0, 0.3, 0.3])
    lengths = np.where(short, 2, 3)
    kept, seen = np.arange(3) < lengths[:, None], np.arange(4) <= lengths[:, None]
    obs = np.eye(5, dtype=np.float32)[place]
    episodes = Episodes(
        obs=obs[seen],
        action=action[kept],
        reward=reward[kept].astype(np.float32),
        lengths=lengths,
        terminated=np.ones(count, bool),
        truncated=np.zeros(count, bool),
    )
    return episodes, Labels.for_episodes(episodes, np.where(short, 1, -1))


class Probe(NamedTuple):
    """Logs, and for each budget the range of the right action at the start."""

    logs: Callable
    answers: tuple[tuple[float, float, float], ...]


PROBES = {
    "one step": Probe(one_step, ((0.0, -1.0, 0.1), (math.inf, 0.6, 1.0))),
    "two actions": Probe(two_actions, ((0.0, -1.0, -0.5), (math.inf, 0.5, 1.0))),
    "graded": Probe(graded, ((0.0, -1.0, 0.15), (0.3, 0.1, 0.5), (math.inf, 0.7, 1.0))),
    "corridor": Probe(corridor, ((0.0, -1.0, 0.0), (math.inf, 0.0, 1.0))),
}


def known_answers(name, method):
    """The ranges for this learner; one that imitates does without a budget what was done on average, about 0."""
    answers = PROBES[name].answers
    if method not in IMITATORS:
        return answers
    safe = [answers[0]] if method == "bc-safe" else []
    return (*safe, (math.inf, -0.25, 0.25))


def one_action(count, reward, choices=None):
    """Episodes of one step that the environment ends."""
    arrays = dict(ragged([1] * count, seed=7, action_size=1).arrays())
    if choices is not None:
        arrays["action"] = np.random.default_rng(5).choice(choices, (count, 1)).astype(np.float32)
    arrays["reward"] = reward(arrays["action"][:, 0]).astype(np.float32)
    arrays["terminated"] = np.ones(count, bool)
    return Episodes(**arrays)

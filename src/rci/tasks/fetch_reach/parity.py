"""Run gymnasium-robotics and the batched simulator side by side, with the same seeds and actions, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rci.data.record import Array
from rci.tasks.fetch_reach.controllers import detour, seek
from rci.tasks.fetch_reach.hazard import HAZARD, Hazard
from rci.tasks.fetch_reach.model import HORIZON
from rci.tasks.fetch_reach.task import FINE_HORIZON, FINE_STRIDE, make, make_vec
from rci.tasks.parity import Parity

ANSWER = ("obs", "reward", "terminated", "truncated")
# (rng, obs [1, 16], (seed, step)) -> action [1, 4]
Driver = Callable[[np.random.Generator, Array, tuple[int, int]], Array]


def _random(rng: np.random.Generator, obs: Array, when: tuple[int, int]) -> Array:
    return rng.uniform(-1, 1, (1, 4)).astype(np.float32)


def _precise(rng: np.random.Generator, obs: Array, when: tuple[int, int]) -> Array:
    return rng.uniform(-1.3, 1.3, (1, 4))  # float64, and beyond the limits


def _corner(rng: np.random.Generator, obs: Array, when: tuple[int, int]) -> Array:
    """One way for 25 steps, then another: into the table, the head, or as far as the arm reaches."""
    seed, step = when
    return np.random.default_rng([seed, step // 25]).choice([-1.0, 1.0], (1, 4)).astype(np.float32)


class Case(NamedTuple):
    """A way to move, with or without the hazard."""

    name: str
    driver: Driver
    hazard: Hazard | None = HAZARD
    stride: float = 1.0
    horizon: int = HORIZON


CASES = (
    Case("arm, random", _random),
    Case("arm, float64 beyond the limits", _precise),
    Case("arm, straight to the goal", lambda rng, obs, when: seek(rng, obs)),
    Case("arm, around the hazard", lambda rng, obs, when: detour(HAZARD, rng, obs)),
    Case("arm, into corners", _corner),
    Case("arm, random, no hazard", _random, hazard=None),
    Case("arm in quarter steps, random", _random, stride=FINE_STRIDE, horizon=FINE_HORIZON),
    Case(
        "arm in quarter steps, straight to the goal",
        lambda rng, obs, when: seek(rng, obs),
        stride=FINE_STRIDE,
        horizon=FINE_HORIZON,
    ),
)


def run_cases(episodes: int, first: int = 0) -> Iterator[Parity]:
    """Compare all cases over `episodes` seeds each; every third episode begins without a seed of its own."""
    for case in CASES:
        yield compare(case, range(first, first + episodes))


def compare(case: Case, seeds: range) -> Parity:
    """Move each seed's arm in both simulators; an episode in three goes on with the stream of the one before."""
    steps: dict[str, Any] = {"stride": case.stride, "max_episode_steps": case.horizon}
    original = make(case.hazard, **steps)
    batched = make_vec(1, case.hazard, autoreset_mode="Disabled", **steps)
    result = Parity(case.name)
    for seed in seeds:
        result.episodes += 1
        given = None if result.episodes % 3 == 0 else seed
        obs, _ = original.reset(seed=given)
        mine, _ = batched.reset(seed=given)
        result.bitwise += _episode(case, seed, obs, mine, original, batched, result)
    original.close()
    return result


def _episode(
    case: Case, seed: int, obs: Array, mine: Array, original: Any, batched: Any, result: Parity
) -> bool:
    rng = np.random.default_rng(seed)
    identical = result.same("obs", obs, mine[0], f"{case.name}, seed {seed}, reset")
    for step in range(case.horizon):
        action = case.driver(rng, mine, (seed, step))
        *theirs, info = original.step(action[0])
        *answers, infos = batched.step(action)
        mine = answers[0]
        result.steps += 1
        pairs = list(zip(ANSWER, theirs, answers)) + [(name, info[name], infos[name]) for name in info]
        where = f"{case.name}, seed {seed}, step {step}"
        for name, value, ours in pairs:
            identical = result.same(name, value, ours[0], where) and identical
    return identical

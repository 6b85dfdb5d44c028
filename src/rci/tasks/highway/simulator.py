"""Many highways at once: the arrays, the kernels that move them, and the threads that share the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.highway import settings
from rci.tasks.highway.layout import CAR_FIELDS, CRASHED, REWARD_TERMS, SPEED, TAG_FIELDS
from rci.tasks.highway.pcg64 import new_stream
from rci.tasks.highway.worlds import allocate, reset_worlds, sort_worlds, state_of, step_worlds

CAR_FRAME = 100e-9  # s that one car takes for one frame, roughly
WORTH_A_THREAD = 0.5e-3  # s of work below which handing it to a thread costs more than it saves


class HighwaySimulator:
    """`num_envs` highways with one configuration.

    refuse: a rule on observations; a reset that it calls true is drawn again, from the same stream.
    off_road_pays: leave out the factor that makes the reward 0 off the road.
    """

    def __init__(
        self,
        num_envs: int,
        config: settings.Config,
        threads: int | None = None,
        ego_only: bool = False,
        refuse: Callable[[Array], Array] | None = None,
        off_road_pays: bool = False,
    ) -> None:
        self.config = config
        self.observation_space = settings.observation_space(config)
        self.action_space = settings.action_space(config)
        self.rules = settings.rules_of(config, ego_only, off_road_pays)
        self.worlds = allocate(num_envs, config["vehicles_count"] + 1, *settings.observation_shape(config))
        self.refuse = refuse
        self._action = np.zeros((num_envs, *(self.action_space.shape or ())), self.action_space.dtype)
        self._shares = work_shares(num_envs, self.worlds.car.shape[2] * self.rules.frames, threads)
        self._pool = ThreadPoolExecutor(len(self._shares)) if len(self._shares) > 1 else None

    def seed(self, index: Array, seeds: Sequence[int | None]) -> None:
        """The streams of numpy's generators with these seeds."""
        for i, seed in zip(index, seeds):
            self.worlds.stream[i] = new_stream(seed)

    def reset(self, index: Array) -> None:
        """Draw new traffic, again and again where the rule refuses it."""
        self._action[index] = 0
        while len(index):
            reset_worlds(self.worlds, self.rules, np.asarray(index, np.int64))
            index = index[self.refuse(self.worlds.obs[index])] if self.refuse is not None else index[:0]

    def step(self, action: Array, live: Array) -> tuple[Array, Array, Array]:
        """One policy step, on as many threads as it is worth."""
        self._action = action.copy()
        command = settings.commands(self.config, action)
        if self._pool is None:
            step_worlds(self.worlds, self.rules, command, live, 0, len(live))
        else:
            work = [
                self._pool.submit(step_worlds, self.worlds, self.rules, command, live, *share)
                for share in self._shares
            ]
            for part in work:
                part.result()
        return self.worlds.reward.copy(), self.worlds.terminated.copy(), self.worlds.truncated.copy()

    def observe(self) -> Array:
        """What every ego sees."""
        return self.worlds.obs.copy()

    def info(self) -> dict[str, Any]:
        """highway-env's infos. After a reset the action is 0 (there, it is a random one that nobody took)."""
        terms = {name: self.worlds.terms[:, k].copy() for k, name in enumerate(REWARD_TERMS)}
        return {
            "speed": self.worlds.car[:, SPEED, 0].copy(),
            "crashed": self.worlds.tag[:, CRASHED, 0] != 0,
            "action": self._action.copy(),
            "rewards": terms,
        }

    def state(self) -> dict[str, Array]:
        """A copy of everything that the future depends on."""
        return state_of(self.worlds)

    def set_state(self, state: dict[str, Array]) -> None:
        """Continue from a state; all of it is checked before anything is changed."""
        current = self.state()
        if set(state) != set(current):
            wrong = sorted(set(state) ^ set(current))
            raise RciError(
                f"a state has the entries {', '.join(current)}; {wrong[0]!r} is missing or unknown."
            )
        for name, value in current.items():
            given = np.asarray(state[name])
            if given.shape != value.shape:
                raise RciError(f"state[{name!r}] must have shape {value.shape}, got {given.shape}.")
            if given.dtype.kind not in "fiub" or not np.isfinite(given.astype(np.float64)).all():
                raise RciError(f"state[{name!r}] must be finite numbers.")
        for name in ("lane", "target_lane"):
            lanes = np.asarray(state[name])
            if lanes.min() < 0 or lanes.max() >= self.rules.lanes:
                raise RciError(f"state[{name!r}] must be 0 to {self.rules.lanes - 1}.")
        for name in ("order", "rank"):
            if not np.array_equal(np.sort(state[name], 1), np.sort(current[name], 1)):
                raise RciError(f"state[{name!r}] must be an order of the cars.")
        for k, name in enumerate(CAR_FIELDS):
            self.worlds.car[:, k] = state[name]
        for k, name in enumerate(TAG_FIELDS):
            self.worlds.tag[:, k] = state[name]
        self.worlds.stream[:], self.worlds.clock[:] = state["stream"], state["clock"]
        sort_worlds(self.worlds, self.rules)


def work_shares(worlds: int, car_frames: int, threads: int | None) -> list[tuple[int, int]]:
    """Which worlds each thread steps. None: as many threads as there are free cores and the work is worth."""
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = max(1, min(cores, int(worlds * car_frames * CAR_FRAME / WORTH_A_THREAD)))
    elif threads < 1:
        raise RciError(f"threads must be at least 1, got {threads}.")
    borders = np.linspace(0, worlds, min(threads, worlds) + 1).astype(int)
    return [(int(first), int(last)) for first, last in pairwise(borders)]

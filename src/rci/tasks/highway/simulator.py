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
from rci.tasks.highway.layout import CRASHED, REWARD_TERMS, SPEED
from rci.tasks.highway.pcg64 import new_stream
from rci.tasks.highway.safe_start import MOST_DRAWS, no_safe_start
from rci.tasks.highway.worlds import allocate, reset_worlds, step_worlds

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
        self._pool: ThreadPoolExecutor | None = None  # until it is needed

    def seed(self, index: Array, seeds: Sequence[int | None]) -> None:
        """The streams of numpy's generators with these seeds."""
        for i, seed in zip(index, seeds):
            self.worlds.stream[i] = new_stream(seed)

    def reset(self, index: Array) -> None:
        """Draw new traffic, again and again where the rule refuses it."""
        self._action[index] = 0
        for _ in range(MOST_DRAWS):
            reset_worlds(self.worlds, self.rules, np.asarray(index, np.int64))
            index = index[self.refuse(self.worlds.obs[index])] if self.refuse is not None else index[:0]
            if not len(index):
                return
        raise no_safe_start()

    def step(self, action: Array, live: Array) -> tuple[Array, Array, Array]:
        """One policy step, on as many threads as it is worth."""
        self._action = action.copy()
        command = settings.commands(self.config, action)
        if len(self._shares) == 1:
            step_worlds(self.worlds, self.rules, command, live, 0, len(live))
        else:
            self._pool = self._pool or ThreadPoolExecutor(len(self._shares))
            work = [
                self._pool.submit(step_worlds, self.worlds, self.rules, command, live, *share)
                for share in self._shares
            ]
            for part in work:
                part.result()
        return self.worlds.reward.copy(), self.worlds.terminated.copy(), self.worlds.truncated.copy()

    def close(self) -> None:
        """End the threads; a later step would start new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which have threads of their own."""
        return {**self.__dict__, "_pool": None}

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


def work_shares(worlds: int, car_frames: int, threads: int | None) -> list[tuple[int, int]]:
    """Which worlds each thread steps. None: as many threads as there are free cores and the work is worth."""
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = max(1, min(cores, int(worlds * car_frames * CAR_FRAME / WORTH_A_THREAD)))
    elif isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise RciError(f"threads must be a whole number, at least 1, got {threads!r}.")
    borders = np.linspace(0, worlds, min(threads, worlds) + 1).astype(int)
    return [(int(first), int(last)) for first, last in pairwise(borders)]

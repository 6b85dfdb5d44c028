"""Many highways at once: the arrays, the kernels that move them, and the threads that share the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rci.data.record import Array
from rci.tasks.highway import settings
from rci.tasks.highway.physics.layout import CRASHED, REWARD_TERMS, SPEED
from rci.tasks.highway.physics.pcg64 import new_stream
from rci.tasks.highway.physics.worlds import allocate, reset_worlds, step_worlds
from rci.tasks.highway.safe_start import MOST_DRAWS, no_safe_start
from rci.tasks.threads import WorkerThreads

CAR_FRAME = 100e-9  # s that one car takes for one frame, roughly


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
        self.threads = WorkerThreads(
            num_envs, self.worlds.car.shape[2] * self.rules.frames * CAR_FRAME, threads
        )

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
        self.threads.run(lambda _, *share: step_worlds(self.worlds, self.rules, command, live, *share))
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

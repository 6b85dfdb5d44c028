"""gymnasium-robotics itself, one arm at a time: the reference that the batched simulator is held against."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rci.data.errors import unknown_name
from rci.data.record import Array
from rci.tasks.batched import check_actions
from rci.tasks.fetch_reach.hazard import HAZARD, OBS_SIZE, Hazard, check_hazard
from rci.tasks.fetch_reach.model import make_native
from rci.tasks.fetch_reach.simulator import MOST_DRAWS, no_free_goal

PARTS = ("observation", "achieved_goal", "desired_goal")


class SafeFetchReach(gymnasium.Env):
    """FetchReachDense-v4 with its observation in a row, and a hazard: goals go with it, entering it has a cost.

    Without a hazard it is the plain environment. It never ends; a time limit is a wrapper's business.
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 25}  # noqa: RUF012 (Gymnasium's own way)

    def __init__(
        self, hazard: Hazard | None = HAZARD, render_mode: str | None = None, stride: float = 1.0
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise unknown_name("render mode", str(render_mode), self.metadata["render_modes"])
        self.arm: Any = make_native(render_mode=render_mode).unwrapped
        self._workbench: Any = None  # until a picture is asked for
        self.hazard, self.render_mode = check_hazard(hazard), render_mode
        self.stride = stride  # the share of an action that reaches the arm
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS_SIZE,), np.float64)
        self.action_space: Any = self.arm.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        obs, info = self.arm.reset(seed=seed, options=options)
        for _ in range(MOST_DRAWS):
            if self.hazard is None or not self.hazard.refuses(obs["desired_goal"]):
                return in_a_row(obs), info
            obs, info = self.arm.reset(options=options)
        raise no_free_goal()

    def step(self, action: Any) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        action = check_actions(action, self.action_space, self.action_space)
        # gymnasium-robotics clips once more, which then changes nothing
        action = np.clip(action, self.action_space.low, self.action_space.high) * self.stride
        table, reward, terminated, truncated, info = self.arm.step(action)
        obs = in_a_row(table)
        if self.hazard is not None:
            info = {**info, "cost": float(self.hazard.unsafe(obs))}
        return obs, reward, terminated, truncated, info

    def render(self) -> Any:
        """The workbench with goal and hazard. Nothing of the simulation is changed by looking at it."""
        if self.render_mode != "rgb_array":
            return self.arm.render()
        from rci.tasks.fetch_reach.workbench import Workbench

        self._workbench = self._workbench or Workbench(self.arm.model)
        return self._workbench.draw(self.arm.data, self.hazard, self.arm.goal)

    def close(self) -> None:
        self.arm.close()
        if self._workbench is not None:
            self._workbench.close()
            self._workbench = None


def in_a_row(obs: dict[str, Array]) -> Array:
    """gymnasium-robotics' table of an observation -> 16 numbers."""
    return np.concatenate([obs[part] for part in PARTS])

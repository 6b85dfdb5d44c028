"""gymnasium-robotics itself, one arm at a time: the reference that the batched simulator is held against."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.fetch_reach.hazard import HAZARD, OBS_SIZE, Hazard, check_hazard
from rci.tasks.fetch_reach.model import make_native
from rci.tasks.fetch_reach.simulator import MOST_DRAWS, no_free_goal

PARTS = ("observation", "achieved_goal", "desired_goal")


class SafeFetchReach(gymnasium.Env):
    """FetchReachDense-v4 with its observation in a row, and a hazard: goals go with it, entering it has a cost.

    Without a hazard it is the plain environment. It never ends; a time limit is a wrapper's business.
    """

    def __init__(self, hazard: Hazard | None = HAZARD, render_mode: str | None = None) -> None:
        self.arm: Any = make_native(render_mode=render_mode).unwrapped
        self.hazard, self.render_mode = check_hazard(hazard), render_mode
        self.metadata = self.arm.metadata
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS_SIZE,), np.float64)
        self.action_space = self.arm.action_space

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
        if not np.isfinite(action).all():
            raise RciError("the action is not finite.")
        table, reward, terminated, truncated, info = self.arm.step(action)
        obs = in_a_row(table)
        if self.hazard is not None:
            info = {**info, "cost": float(self.hazard.unsafe(obs))}
        return obs, reward, terminated, truncated, info

    def render(self) -> Any:
        """The workbench with goal and hazard. Nothing of the simulation is changed by looking at it."""
        if self.render_mode != "rgb_array":
            return self.arm.render()
        from rci.tasks.fetch_reach.workbench import draw_workbench

        return draw_workbench(self.arm.model, self.arm.data, self.hazard, self.arm.goal)

    def close(self) -> None:
        self.arm.close()


def in_a_row(obs: dict[str, Array]) -> Array:
    """gymnasium-robotics' table of an observation -> 16 numbers."""
    return np.concatenate([obs[part] for part in PARTS])

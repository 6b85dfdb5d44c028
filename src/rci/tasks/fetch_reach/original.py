"""gymnasium-robotics itself, one arm at a time: the reference that the batched simulator is held against."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rci.data.record import Array
from rci.tasks.fetch_reach.hazard import OBS_SIZE, Hazard
from rci.tasks.fetch_reach.model import make_native
from rci.tasks.fetch_reach.simulator import MOST_DRAWS, no_free_goal

PARTS = ("observation", "achieved_goal", "desired_goal")


class SafeFetchReach(gymnasium.Wrapper):
    """FetchReachDense-v4 with its observation in a row, and perhaps a hazard that keeps goals away from it."""

    def __init__(self, hazard: Hazard | None, max_episode_steps: int, render_mode: str | None = None) -> None:
        super().__init__(make_native(max_episode_steps=max_episode_steps, render_mode=render_mode))
        self.hazard = hazard
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS_SIZE,), np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        for _ in range(MOST_DRAWS):
            if self.hazard is None or not self.hazard.too_near(obs["desired_goal"]):
                return in_a_row(obs), info
            obs, info = self.env.reset(options=options)
        raise no_free_goal()

    def step(self, action: Any) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        table, reward, terminated, truncated, info = self.env.step(action)
        obs = in_a_row(table)
        if self.hazard is not None:
            info = {**info, "cost": float(self.hazard.unsafe(obs))}
        return obs, reward, terminated, truncated, info

    def render(self) -> Any:
        """The workbench with goal and hazard. Nothing of the simulation is changed by looking at it."""
        if self.render_mode != "rgb_array":
            return self.env.render()
        from rci.tasks.fetch_reach.workbench import draw_workbench

        arm: Any = self.env.unwrapped
        return draw_workbench(arm.model, arm.data, self.hazard, arm.goal)


def in_a_row(obs: dict[str, Array]) -> Array:
    """gymnasium-robotics' table of an observation -> 16 numbers."""
    return np.concatenate([obs[part] for part in PARTS])

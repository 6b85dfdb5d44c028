"""highway-env itself, one world at a time: the reference that the batched simulator is held against."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import gymnasium

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.highway.layout import MOST_DRAWS, no_safe_start


def make_original(
    name: str = "highway-v0",
    refuse: Callable[[Array], Array] | None = None,
    off_road_pays: bool = False,
    **config: Any,
) -> gymnasium.Env:
    """The installed highway-env with the same configuration and the same two changes as the batched one."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        from highway_env.envs.highway_env import HighwayEnv, HighwayEnvFast
    except ImportError:
        raise RciError(
            "the original simulator needs the package highway-env: install rci with the extra 'highway'. "
            "rci.tasks.make_vec does not need it."
        ) from None
    env: gymnasium.Env = (HighwayEnvFast if name == "highway-fast-v0" else HighwayEnv)(config=config)
    if off_road_pays:
        env = OffRoadPays(env)
    return env if refuse is None else SafeStart(env, refuse)


class SafeStart(gymnasium.Wrapper):
    """A reset that a rule refuses is drawn again."""

    def __init__(self, env: gymnasium.Env, refuse: Callable[[Array], Array]) -> None:
        super().__init__(env)
        self.refuse = refuse

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        for _ in range(MOST_DRAWS):
            if not self.refuse(obs):
                return obs, info
            obs, info = self.env.reset(options=options)
        raise no_safe_start()


class OffRoadPays(gymnasium.Wrapper):
    """highway-env's reward without the factor that makes it 0 off the road."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, _, terminated, truncated, info = self.env.step(action)
        config = self.env.unwrapped.config  # type: ignore[attr-defined]
        reward = sum(config.get(name, 0) * term for name, term in info["rewards"].items())
        if config["normalize_reward"]:
            best = config["high_speed_reward"] + config["right_lane_reward"]
            reward = (reward - config["collision_reward"]) / (best - config["collision_reward"])
        return obs, reward, terminated, truncated, info

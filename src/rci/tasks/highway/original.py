"""highway-env itself, one world at a time: the reference that the batched simulator is held against."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from rci.data.errors import RciError, unknown_name
from rci.data.record import Array
from rci.tasks.highway.safe_start import SafeStart


def make_original(
    config: Mapping[str, Any],
    name: str = "highway-v0",
    refuse: Callable[[Array], Array] | None = None,
    off_road_pays: bool = False,
    render_mode: str | None = None,
) -> gymnasium.Env:
    """The installed highway-env with the same configuration and the same two changes as the batched one.

    It supports more than the batched one, but not keys that it does not have, which it would ignore.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        from highway_env.envs.highway_env import HighwayEnv, HighwayEnvFast
    except ImportError:
        raise RciError(
            "the original simulator needs the package highway-env: install rci with the extra 'highway'. "
            "rci.tasks.make_vec does not need it."
        ) from None
    kind = HighwayEnvFast if name == "highway-fast-v0" else HighwayEnv
    known = kind.default_config()
    for key in config:
        if key not in known:
            raise unknown_name("key of highway-env's config", key, known)
    env: gymnasium.Env = kind(config=dict(config), render_mode=render_mode)
    if off_road_pays:
        env = OffRoadPays(env)
    return env if refuse is None else SafeStart(env, refuse)


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

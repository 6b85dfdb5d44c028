"""Resets that are unsafe from the start are drawn again, from the same stream, but not for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from rci.data.errors import RciError
from rci.data.record import Array

MOST_DRAWS = 1000  # of one reset, before giving up


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


def no_safe_start() -> RciError:
    """What to say when every draw of a reset is refused."""
    return RciError(
        f"no safe start in {MOST_DRAWS} draws: with this configuration traffic is too dense for the task's rule. "
        "Lower vehicles_density, or use more lanes or a larger ego_spacing."
    )

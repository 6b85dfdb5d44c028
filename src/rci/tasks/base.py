"""What a task is, and the batched environment that every task's simulator is wrapped in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episodes

BehaviourPolicy = Callable[[np.random.Generator, Array], Array]  # (rng, obs [n, d]) -> action [n, a]


@dataclass(frozen=True)
class Task:
    """A simulator with a notion of danger. `unsafe` and `distance` read the observation after a step."""

    name: str
    obs_shape: tuple[int, ...]
    make_vec: Callable[..., VectorEnv]
    make: Callable[..., gymnasium.Env]
    unsafe: Callable[[Array], Array]  # obs [..., d] -> bool [...]
    distance: Callable[[Array], Array]  # obs [..., d] -> distance to the nearest danger [...]
    behaviours: Mapping[str, BehaviourPolicy]
    recipes: Mapping[str, Mapping[str, float]]  # recipe -> share of episodes per behaviour
    risk: Callable[[Episodes], Array] | None = None  # exact chance of a violation after each step, flat
    position: Callable[[Array], Array] | None = None  # obs [..., d] -> [..., 2], for drawings
    draw: Callable[[Any], None] | None = None  # draws the world on matplotlib axes


def check_observations(task: Task, episodes: Episodes) -> None:
    """Refuse episodes that cannot be of this task."""
    if episodes.obs.shape[1:] != task.obs_shape:
        raise RciError(
            f"observations of {task.name!r} have shape {task.obs_shape}, but these episodes have "
            f"{episodes.obs.shape[1:]}."
        )


class Simulator(Protocol):
    """The arrays and the arithmetic of `num_envs` worlds; no notion of seeds, spaces or autoreset."""

    observation_space: Any  # gymnasium spaces of one world
    action_space: Any

    def reset(self, index: Array, rngs: Sequence[np.random.Generator]) -> None:
        """Start the worlds `index` anew, each from its own generator."""

    def step(self, action: Array) -> tuple[Array, Array, Array]:
        """Move all worlds; reward, terminated, truncated."""

    def observe(self) -> Array:
        """Observations of all worlds; a new array each time."""


class BatchedEnv(VectorEnv):
    """A Gymnasium VectorEnv around a simulator: seeding, masks, autoreset and checks in one place.

    World i of `reset(seed=s)` is seeded with s + i, so an episode does not depend on the batch it runs in.
    """

    def __init__(
        self, simulator: Simulator, num_envs: int, autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> None:
        self.simulator = simulator
        self.num_envs = num_envs
        self.single_observation_space = simulator.observation_space
        self.single_action_space = simulator.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.autoreset_mode = autoreset_mode
        self._rngs: list[np.random.Generator] = [np.random.default_rng() for _ in range(num_envs)]
        self._ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start all worlds anew, or those of `options["reset_mask"]`."""
        seeds = [int(seed) + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise RciError(
                f"reset needs one seed for each of {self.num_envs} environments, got {len(seeds)}."
            )
        mask = np.ones(self.num_envs, bool) if options is None else options.get("reset_mask", True)
        index = np.flatnonzero(np.broadcast_to(mask, self.num_envs))
        for i in index if seeds is not None else ():
            self._rngs[i] = np.random.default_rng(seeds[i])  # type: ignore[index]
        self._restart(index)
        return self.simulator.observe(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Move every world by one step; what happens to ended ones is up to the autoreset mode."""
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise RciError(f"actions must have shape {self.action_space.shape}, got {actions.shape}.")
        if not np.isfinite(actions).all():
            raise RciError(
                f"the action of environment {np.argmin(np.isfinite(actions).all(1))} is not finite."
            )
        waiting = self._ended.copy()
        if self.autoreset_mode is AutoresetMode.DISABLED and waiting.any():
            raise RciError(
                f"environment {waiting.argmax()} has ended and must be reset before the next step."
            )
        reward, terminated, truncated = self.simulator.step(actions)
        info: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and waiting.any():
            self._restart(np.flatnonzero(waiting))
            reward, terminated, truncated = (
                np.where(waiting, 0, x).astype(x.dtype) for x in (reward, terminated, truncated)
            )
        self._ended = terminated | truncated
        obs = self.simulator.observe()
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            info = {"final_obs": obs.copy(), "_final_obs": self._ended.copy()}
            self._restart(np.flatnonzero(self._ended))
            obs = self.simulator.observe()
        return obs, reward, terminated, truncated, info

    def _restart(self, index: Array) -> None:
        self.simulator.reset(index, [self._rngs[i] for i in index])
        self._ended[index] = False


class SingleEnv(gymnasium.Env):
    """One world of a batched environment as a plain Gymnasium Env."""

    def __init__(self, envs: VectorEnv) -> None:
        self.envs = envs
        self.observation_space = envs.single_observation_space
        self.action_space = envs.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        obs, info = self.envs.reset(seed=seed)
        return obs[0], info

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.envs.step(np.asarray(action)[None])
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

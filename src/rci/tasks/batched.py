"""The batched environment that every simulator is wrapped in: seeding, masks, autoreset and checks in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rci.data.errors import RciError, unknown_name
from rci.data.record import Array


class Simulator(Protocol):
    """The arrays and the arithmetic of `num_envs` worlds; no notion of spaces' checks or autoreset."""

    observation_space: Any  # gymnasium spaces of one world
    action_space: Any

    def seed(self, index: Array, seeds: Sequence[int | None]) -> None:
        """Give the worlds `index` new streams of chance; None is any."""

    def reset(self, index: Array) -> None:
        """Start the worlds `index` anew, each from where its own stream stands."""

    def step(self, action: Array, live: Array) -> tuple[Array, Array, Array]:
        """Move the worlds that are live; reward, terminated, truncated of all, anything for the others."""

    def observe(self) -> Array:
        """Observations of all worlds; a new array each time."""

    def info(self) -> dict[str, Any]:
        """What else is known of all worlds: new arrays, or tables of them, by name."""


class BatchedEnv(VectorEnv):
    """A Gymnasium VectorEnv around a simulator.

    World i of `reset(seed=s)` is seeded with s + i, so an episode does not depend on the batch it runs in.
    """

    def __init__(
        self,
        simulator: Simulator,
        num_envs: int,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.simulator = simulator
        self.num_envs = num_envs
        self.single_observation_space = simulator.observation_space
        self.single_action_space = simulator.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.autoreset_mode = parse_autoreset(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode}
        simulator.seed(np.arange(num_envs), [None] * num_envs)
        self._ended = np.zeros(num_envs, bool)
        self._begun = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start all worlds anew, or those of `options["reset_mask"]`. Without a seed, streams go on."""
        mask = reset_mask(options, self.num_envs)
        index = np.flatnonzero(mask)
        if seed is not None:
            seeds = check_seeds(seed, self.num_envs)
            given = [i for i in index if seeds[i] is not None]  # None: this world's stream goes on
            self.simulator.seed(np.array(given, np.int64), [seeds[i] for i in given])
        self._restart(index)
        return self.simulator.observe(), masked(self.simulator.info(), mask)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Move every world by one step; what happens to ended ones is up to the autoreset mode."""
        actions = check_actions(actions, self.action_space, self.single_action_space)
        if not self._begun.all():
            raise RciError(f"environment {self._begun.argmin()} must be reset before its first step.")
        waiting = self._ended.copy()
        if self.autoreset_mode is AutoresetMode.DISABLED and waiting.any():
            raise RciError(
                f"environment {waiting.argmax()} has ended and must be reset before the next step."
            )
        resetting = waiting & (self.autoreset_mode is AutoresetMode.NEXT_STEP)
        reward, terminated, truncated = self.simulator.step(actions, ~resetting)
        if resetting.any():
            self._restart(np.flatnonzero(resetting))
            reward, terminated, truncated = (
                np.where(resetting, 0, x).astype(x.dtype) for x in (reward, terminated, truncated)
            )
        self._ended = terminated | truncated
        final: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            ended = self._ended
            last = {"final_obs": self.simulator.observe(), "final_info": masked(self.simulator.info(), ended)}
            final = masked(last, ended)
            self._restart(np.flatnonzero(ended))
        info = masked(self.simulator.info(), np.ones(self.num_envs, bool))
        return self.simulator.observe(), reward, terminated, truncated, info | final

    def _restart(self, index: Array) -> None:
        self.simulator.reset(index)
        self._ended[index] = False
        self._begun[index] = True


def check_count(name: str, given: Any) -> int:
    """How many there are to be of something: worlds, threads, steps."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise RciError(f"{name} must be a whole number, at least 1, got {given!r}.")
    return int(given)


def parse_autoreset(mode: AutoresetMode | str) -> AutoresetMode:
    """Gymnasium's modes, by member or by name."""
    try:
        return AutoresetMode.__members__.get(str(mode)) or AutoresetMode(mode)
    except ValueError:
        raise unknown_name("autoreset mode", str(mode), [known.value for known in AutoresetMode]) from None


def reset_mask(options: dict[str, Any] | None, worlds: int) -> Array:
    """Which worlds a reset is for."""
    options = options or {}
    for name in options:
        if name != "reset_mask":
            raise unknown_name("reset option", name, ["reset_mask"])
    mask = np.asarray(options.get("reset_mask", np.ones(worlds, bool)))
    if mask.dtype != np.bool_ or mask.shape != (worlds,):
        raise RciError(
            f"reset_mask must be {worlds} true/false flags, got {mask.dtype} of shape {mask.shape}."
        )
    return mask


def check_seeds(seed: int | Sequence[int | None], worlds: int) -> list[int | None]:
    """One seed per world; a single number stands for itself and those after it."""
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        seeds: list[Any] = [int(seed) + i for i in range(worlds)]
    elif isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
        seeds = list(seed)
    else:
        raise RciError(f"a seed must be a whole number or one for each environment, got {seed!r}.")
    if len(seeds) != worlds:
        raise RciError(f"reset needs one seed for each of {worlds} environments, got {len(seeds)}.")
    for i, value in enumerate(seeds):
        if value is not None and (not isinstance(value, int | np.integer) or value < 0):
            raise RciError(f"the seed of environment {i} must be a whole number, at least 0, got {value!r}.")
    return [None if value is None else int(value) for value in seeds]  # NumPy's too


def check_actions(given: Any, space: Any, single: Any) -> Array:
    """Refuse actions of a wrong shape or kind, and numbers that are not finite; clipping is up to the simulator."""
    try:
        actions = np.asarray(given)
    except ValueError:
        raise RciError(f"actions must have shape {space.shape}, got rows of different lengths.") from None
    if actions.shape != space.shape:
        raise RciError(f"actions must have shape {space.shape}, got {actions.shape}.")
    if isinstance(single, gymnasium.spaces.Discrete):
        if not np.issubdtype(actions.dtype, np.integer):
            raise RciError(f"actions must be whole numbers 0 to {single.n - 1}, got {actions.dtype}.")
        wrong = (actions < 0) | (actions >= single.n)
        if wrong.any():
            i = int(wrong.argmax())
            raise RciError(f"the action of environment {i} must be 0 to {single.n - 1}, got {actions[i]}.")
        return actions
    if not np.issubdtype(actions.dtype, np.number) or np.iscomplexobj(actions):
        raise RciError(f"actions must be numbers, got {actions.dtype}.")
    if not np.isfinite(actions).all():
        which = "" if actions.ndim == 1 else f" of environment {np.argmin(np.isfinite(actions).all(1))}"
        raise RciError(f"the action{which} is not finite.")
    return actions


def masked(info: dict[str, Any], mask: Array) -> dict[str, Any]:
    """Infos as Gymnasium's vector environments give them: beside each entry, which worlds have it; 0 elsewhere."""
    result: dict[str, Any] = {}
    missing = ~mask if not mask.all() else None
    for name, value in info.items():
        if isinstance(value, dict):
            value = masked(value, mask)
        elif missing is not None and not name.startswith("_"):
            value[missing] = 0
        result[name] = value
        if not name.startswith("_"):
            result[f"_{name}"] = mask.copy()
    return result


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
        obs, _ = self.envs.reset(seed=seed)
        return obs[0], {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = self.envs.step(np.asarray(action)[None])
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

"""highway-v0 as a batched Gymnasium environment, bit for bit what highway-env computes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from gymnasium.vector import AutoresetMode

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.batched import BatchedEnv
from rci.tasks.highway import settings
from rci.tasks.highway.drawing import draw_frame
from rci.tasks.highway.physics.layout import CRASHED
from rci.tasks.highway.physics.simulator import HighwaySimulator
from rci.tasks.highway.physics.state import State, checked_state, read_state, write_state

DEFAULTS = {"highway-v0": settings.DEFAULTS, "highway-fast-v0": settings.FAST_DEFAULTS}


class HighwayVectorEnv(BatchedEnv):
    """Many highways at once. Besides Gymnasium's interface: `config`, `state`, `set_state` and `render`."""

    simulator: HighwaySimulator
    render_mode = "rgb_array"

    def __init__(
        self, simulator: HighwaySimulator, num_envs: int, autoreset_mode: AutoresetMode | str
    ) -> None:
        super().__init__(simulator, num_envs, autoreset_mode)
        self.metadata |= {"render_modes": ["rgb_array"], "render_fps": simulator.config["policy_frequency"]}

    @property
    def config(self) -> settings.Config:
        """The whole configuration, under highway-env's names; a copy."""
        return copy.deepcopy(self.simulator.config)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self.simulator.threads.close()

    def state(self) -> State:
        """A copy of everything that the future depends on, by name; cars as [worlds, cars], the ego first."""
        return {**read_state(self.simulator.worlds), "ended": self._ended.copy(), "begun": self._begun.copy()}

    def set_state(self, state: Mapping[str, Array]) -> Array:
        """Continue from a state that `state` gave, perhaps edited; the observations there.

        All of it is checked before anything is changed.
        """
        checked = checked_state(state, self.state(), self.simulator.rules.lanes)
        write_state(self.simulator.worlds, self.simulator.rules, checked)
        self._ended, self._begun = checked["ended"], checked["begun"]
        return self.simulator.observe()

    def render(self) -> tuple[Array, ...]:
        """One RGB picture [height, width, 3] of each world, uint8, drawn from the arrays."""
        worlds, config = self.simulator.worlds, self.simulator.config
        return tuple(draw_frame(car, tag[CRASHED] != 0, config) for car, tag in zip(worlds.car, worlds.tag))


def make_highway(
    num_envs: int,
    config: Mapping[str, Any],
    name: str = "highway-v0",
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    threads: int | None = None,
    refuse: Callable[[Array], Array] | None = None,
    off_road_pays: bool = False,
) -> HighwayVectorEnv:
    """`num_envs` worlds of highway-v0 or highway-fast-v0, perhaps with a task's two changes."""
    chosen = settings.complete(config, DEFAULTS[name])
    simulator = HighwaySimulator(num_envs, chosen, threads, name == "highway-fast-v0", refuse, off_road_pays)
    return HighwayVectorEnv(simulator, num_envs, autoreset_mode)


def make_native(
    num_envs: int,
    name: str,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    threads: int | None = None,
    render_mode: str | None = "rgb_array",
    **config: Any,
) -> HighwayVectorEnv:
    """The plain environment. config: highway-env's own keys."""
    if render_mode not in (None, "rgb_array"):
        raise RciError(
            f"render_mode {render_mode!r} is not supported: pictures are rgb_array, or none are asked for."
        )
    return make_highway(num_envs, config, name, autoreset_mode, threads)

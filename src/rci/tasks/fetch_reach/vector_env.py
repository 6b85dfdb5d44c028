"""FetchReachDense-v4 as a batched Gymnasium environment, bit for bit what gymnasium-robotics computes."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.batched import BatchedEnv
from rci.tasks.fetch_reach.hazard import Hazard
from rci.tasks.fetch_reach.model import HORIZON
from rci.tasks.fetch_reach.simulator import FetchSimulator


class FetchVectorEnv(BatchedEnv):
    """Many arms at once. Besides Gymnasium's interface: `render`."""

    simulator: FetchSimulator
    render_mode = "rgb_array"

    def __init__(self, simulator: FetchSimulator, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        super().__init__(simulator, num_envs, autoreset_mode)
        self.metadata |= {
            "render_modes": ["rgb_array"],
            "render_fps": round(1 / simulator.arm.step_seconds),
        }

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self.simulator.crew.close()

    def render(self) -> tuple[Array, ...]:
        """One RGB picture [height, width, 3] of each workbench, uint8. Needs OpenGL."""
        import mujoco

        from rci.tasks.fetch_reach.workbench import draw_workbench

        sim = self.simulator
        data, pictures = mujoco.MjData(sim.arm.model), []
        for state, goal in zip(sim.state, sim.goal):
            mujoco.mj_setState(sim.arm.model, data, state, sim.arm.layout.flags)
            mujoco.mj_forward(sim.arm.model, data)
            pictures.append(draw_workbench(sim.arm.model, data, sim.hazard, goal))
        return tuple(pictures)


def make_fetch(
    num_envs: int,
    hazard: Hazard | None,
    max_episode_steps: int = HORIZON,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    threads: int | None = None,
) -> FetchVectorEnv:
    """`num_envs` arms, with or without a hazard."""
    simulator = FetchSimulator(num_envs, hazard, check_horizon(max_episode_steps), threads)
    return FetchVectorEnv(simulator, num_envs, autoreset_mode)


def check_horizon(steps: Any) -> int:
    """Steps after which an episode is cut."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise RciError(f"max_episode_steps must be a whole number, at least 1, got {steps!r}.")
    return steps

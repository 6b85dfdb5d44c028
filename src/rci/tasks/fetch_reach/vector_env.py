"""FetchReachDense-v4 as a batched Gymnasium environment, bit for bit what gymnasium-robotics computes."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.batched import BatchedEnv, check_count
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
        self.simulator.threads.close()

    def render(self) -> tuple[Array, ...]:
        """One RGB picture [height, width, 3] of each workbench, uint8. Needs OpenGL."""
        import mujoco

        from rci.tasks.fetch_reach.workbench import Workbench

        sim, model = self.simulator, self.simulator.arm.model
        data, pictures = mujoco.MjData(model), []
        with Workbench(model) as workbench:
            for state, goal in zip(sim.state, sim.goal):
                mujoco.mj_setState(model, data, state, sim.arm.layout.flags)
                mujoco.mj_forward(model, data)
                pictures.append(workbench.draw(data, sim.hazard, goal))
        return tuple(pictures)


def make_fetch(
    num_envs: int,
    hazard: Hazard | None,
    max_episode_steps: int = HORIZON,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    threads: int | None = None,
    render_mode: str | None = "rgb_array",
    stride: float = 1.0,
) -> FetchVectorEnv:
    """`num_envs` arms, with or without a hazard. stride: the share of an action that reaches the arm."""
    if render_mode not in (None, "rgb_array"):
        raise RciError(f"render_mode {render_mode!r} is not supported: pictures are rgb_array.")
    horizon = check_count("max_episode_steps", max_episode_steps)
    simulator = FetchSimulator(num_envs, hazard, horizon, threads, stride)
    return FetchVectorEnv(simulator, num_envs, autoreset_mode)

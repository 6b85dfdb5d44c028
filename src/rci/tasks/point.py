"""A point mass with momentum on a lattice, a goal to the right and a circular hazard in between.

Position and velocity are whole numbers of lattice units. An action in [-1, 1] per axis is how hard a thruster
is pressed: it fires with probability |action| and then changes that velocity by one unit. The answer to an
action is therefore smooth, momentum makes late evasion useless, and yet the chance of a violation under a known
behaviour can be computed exactly by dynamic programming. That makes `point` the task on which redistribution is
measured against the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from scipy.sparse import csr_array
from scipy.special import ndtr

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episodes
from rci.tasks.base import Probe, Task, View, uniform_actions
from rci.tasks.batched import BatchedEnv, SingleEnv
from rci.tasks.film import Film, body, box, check_film_rows, circle, view

HALF_SIZE = np.array([55, 35])  # lattice units from the centre to the walls
MAX_SPEED = 4  # lattice units per step, per axis
GOAL, GOAL_RADIUS = np.array([45, 0]), 6.0
HAZARD, HAZARD_RADIUS = np.array([0, 0]), 12.0
START_LOW, START_HIGH = np.array([-52, -30]), np.array([-36, 30])  # inclusive
START_SPEED = 1  # each component of the first velocity is in -1 .. 1
HORIZON = 50  # steps
PROGRESS_UNIT = 50.0  # lattice units of progress towards the goal that earn a reward of 1
STEP_PRICE = 0.02  # reward paid for every step, so that detours cost something
FILM_MARGIN = 3  # lattice units shown beyond the walls
SEEKER_NOISE = 0.5  # standard deviation of the goal seeker's action
SCALE = np.array([*HALF_SIZE, MAX_SPEED, MAX_SPEED], np.float64)


class PointSimulator:
    """Positions, velocities and clocks of many points."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, num_envs: int, horizon: int = HORIZON) -> None:
        self.horizon = horizon
        self.position = np.zeros((num_envs, 2), np.int64)
        self.velocity = np.zeros((num_envs, 2), np.int64)
        self.clock = np.zeros(num_envs, np.int64)
        self._rngs: dict[int, np.random.Generator] = {}
        self._chance = np.zeros(
            (num_envs, horizon + 1, 2)
        )  # one row more for the step that autoreset ignores

    def seed(self, index: Array, seeds: Sequence[int | None]) -> None:
        """New generators for these worlds."""
        for i, seed in zip(index, seeds):
            self._rngs[i] = np.random.default_rng(seed)

    def reset(self, index: Array) -> None:
        """Draw a start and the episode's luck from each world's own generator."""
        for i in index:
            rng = self._rngs[i]
            self.position[i] = rng.integers(START_LOW, START_HIGH, endpoint=True)
            self.velocity[i] = rng.integers(-START_SPEED, START_SPEED, 2, endpoint=True)
            self._chance[i, :-1] = rng.random((self.horizon, 2))
        self.clock[index] = 0

    def step(self, action: Array, live: Array) -> tuple[Array, Array, Array]:
        """Fire thrusters, move, and pay for the progress made."""
        before = goal_distance(self.position)
        chance = self._chance[np.arange(len(action)), self.clock]
        action = np.clip(action, -1.0, 1.0)
        notch = np.where(chance < np.abs(action), np.sign(action), 0).astype(np.int64)
        self.position, self.velocity = move(self.position, self.velocity, notch)
        self.clock = np.minimum(self.clock + 1, self.horizon)
        after = goal_distance(self.position)
        reward = (before - after) / PROGRESS_UNIT - STEP_PRICE
        terminated = after <= GOAL_RADIUS
        return reward, terminated, ~terminated & (self.clock >= self.horizon)

    def observe(self) -> Array:
        """Position and velocity, each scaled to [-1, 1]."""
        return encode(self.position, self.velocity)

    def info(self) -> dict[str, Any]:
        """Everything there is to know is in the observation."""
        return {}


def move(position: Array, velocity: Array, notch: Array) -> tuple[Array, Array]:
    """One step of the lattice: thrust, then motion; a wall stops the component that runs into it."""
    velocity = np.clip(velocity + notch, -MAX_SPEED, MAX_SPEED)
    free = position + velocity
    position = np.clip(free, -HALF_SIZE, HALF_SIZE)
    return position, np.where(position == free, velocity, 0)


def encode(position: Array, velocity: Array) -> Array:
    """Lattice units -> observation."""
    return (np.concatenate([position, velocity], -1) / SCALE).astype(np.float32)


def decode(obs: Array) -> tuple[Array, Array]:
    """Observation -> lattice units, exactly: the lattice is far coarser than float32."""
    units = np.rint(np.asarray(obs, np.float64) * SCALE).astype(np.int64)
    return units[..., :2], units[..., 2:]


def goal_distance(position: Array) -> Array:
    """Lattice units from the goal's centre."""
    return np.hypot(*np.moveaxis(position - GOAL, -1, 0))


def hazard_distance(obs: Array) -> Array:
    """Lattice units from the hazard's edge; negative inside."""
    position, _ = decode(obs)
    return np.hypot(*np.moveaxis(position - HAZARD, -1, 0)) - HAZARD_RADIUS


def unsafe(obs: Array) -> Array:
    """Inside the hazard, edge included."""
    return hazard_distance(obs) <= 0.0


# Behaviour policies. Each has its exact thruster probabilities beside it, for `risk`.


def seeker_aim(position: Array, velocity: Array) -> Array:
    """The goal seeker's mean action: half of what is missing to full speed straight at the goal."""
    towards = GOAL - position
    length = np.maximum(np.hypot(*np.moveaxis(towards, -1, 0)), 1.0)[..., None]
    return 0.5 * (MAX_SPEED * towards / length - velocity)


def seek_goal(rng: np.random.Generator, obs: Array) -> Array:
    """Head for the goal with a shaky hand, blind to the hazard."""
    aim = seeker_aim(*decode(obs))
    return np.clip(aim + SEEKER_NOISE * rng.standard_normal(aim.shape), -1.0, 1.0).astype(np.float32)


def seeker_thrust(position: Array, velocity: Array) -> Array:
    """Chance that each axis of the goal seeker fires by -1, 0, +1: [..., 2, 3].

    The thruster fires forwards with chance E[clip(X, 0, 1)], X normal around the aim, and
    E[clip(X, 0, 1)] = E[(X)+] - E[(X - 1)+].
    """
    aim = seeker_aim(position, velocity)
    forwards = _expected_excess(aim) - _expected_excess(aim - 1.0)
    backwards = _expected_excess(-aim) - _expected_excess(-aim - 1.0)
    return np.stack([backwards, 1.0 - forwards - backwards, forwards], -1)


def random_thrust(position: Array, velocity: Array) -> Array:
    """The same for uniform actions: a quarter each way, half of the time nothing."""
    return np.broadcast_to(np.array([0.25, 0.5, 0.25]), (*position.shape, 3))


def _expected_excess(mean: Array) -> Array:
    """E[max(X, 0)] for X normal with this mean and the seeker's noise."""
    z = mean / SEEKER_NOISE
    return mean * ndtr(z) + SEEKER_NOISE * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


THRUST: dict[str, Callable[[Array, Array], Array]] = {"seeker": seeker_thrust, "random": random_thrust}


def risk(episodes: Episodes) -> Array:
    """Exact chance, after each recorded transition, that the episode has been or will be violated.

    One number per transition: 1 from the first unsafe one on, otherwise the chance that the recording behaviour
    enters the hazard in the steps that are left of the horizon. Nothing is sampled: backward induction over the
    whole lattice, one sweep per behaviour.
    """
    result = np.empty(int(episodes.lengths.sum()))
    step = np.concatenate([np.arange(n) for n in episodes.lengths])
    episode = np.repeat(np.arange(len(episodes)), episodes.lengths)
    position, velocity = decode(episodes.obs[episodes.next_rows])
    row, column = _flat_state(position, velocity)
    hit = np.hypot(*np.moveaxis(position - HAZARD, -1, 0)) <= HAZARD_RADIUS
    names = np.array(episodes.sources, object)[episodes.source] if episodes.sources else None
    if names is None or not set(names) <= set(THRUST):
        raise RciError(f"the exact risk is known only for episodes recorded by {', '.join(THRUST)}.")
    for name in sorted(set(names)):
        mine = names[episode] == name
        for left, value in violation_chance(THRUST[name], HORIZON):
            now = mine & (step + 1 + left == HORIZON)
            result[now] = value[row[now], column[now]]
    ended = np.zeros(len(result), bool)
    ended[episodes.step_offset[1:] - 1] = True
    result[ended] = 0.0
    # A violation, once it has happened, stays: running maximum of `hit` within each episode.
    seen = np.cumsum(hit)
    before = np.concatenate([[0], seen])[episodes.step_offset[:-1]]
    return np.where(seen > before[episode], 1.0, result)


def violation_chance(thrust: Callable[[Array, Array], Array], horizon: int) -> Iterator[tuple[int, Array]]:
    """Yield (steps left, chance of entering the hazard from every state), from 0 steps left upwards.

    States are a matrix: rows are (x, vx), columns (y, vy). Each axis has three answers to its thruster, so every
    state has nine successors, and one step of the recursion is one product with a sparse matrix.
    """
    x, vx = _axis_states(0)
    y, vy = _axis_states(1)
    shape = (len(x), len(y))
    position = np.stack(np.broadcast_arrays(x[:, None], y[None, :]), -1)
    velocity = np.stack(np.broadcast_arrays(vx[:, None], vy[None, :]), -1)
    chance = thrust(position, velocity)
    joint = chance[..., 0, :, None] * chance[..., 1, None, :]  # [rows, columns, 3, 3]
    after_x, after_y = (
        np.stack([_next_state(axis, *_axis_states(axis), notch) for notch in (-1, 0, 1)], -1)
        for axis in (0, 1)
    )
    successor = after_x[:, None, :, None] * shape[1] + after_y[None, :, None, :]
    states = shape[0] * shape[1]
    transition = csr_array(
        (joint.ravel(), successor.ravel(), np.arange(0, 9 * states + 1, 9)), shape=(states, states)
    )
    inside = np.hypot(*np.moveaxis(position - HAZARD, -1, 0)) <= HAZARD_RADIUS
    arrived = goal_distance(position) <= GOAL_RADIUS
    value = np.zeros(shape)
    for left in range(horizon + 1):
        yield left, value
        entered = np.where(
            inside, 1.0, np.where(arrived, 0.0, value)
        )  # what it is worth to arrive in a state
        value = (transition @ entered.ravel()).reshape(shape)


def _axis_states(axis: int) -> tuple[Array, Array]:
    """All (coordinate, velocity) pairs of one axis, in the order of `_flat_state`."""
    size, speeds = int(HALF_SIZE[axis]), np.arange(-MAX_SPEED, MAX_SPEED + 1)
    coordinates = np.arange(-size, size + 1)
    return np.repeat(coordinates, len(speeds)), np.tile(speeds, len(coordinates))


def _flat_state(position: Array, velocity: Array) -> tuple[Array, Array]:
    """Row and column of states in the matrices of `violation_chance`."""
    flat = (position + HALF_SIZE) * (2 * MAX_SPEED + 1) + velocity + MAX_SPEED
    return flat[..., 0], flat[..., 1]


def _next_state(axis: int, coordinate: Array, velocity: Array, notch: int) -> Array:
    """Where each axis state goes when its thruster fires by `notch`."""
    position, speed = np.zeros((len(coordinate), 2), np.int64), np.zeros((len(coordinate), 2), np.int64)
    position[:, axis], speed[:, axis] = coordinate, velocity
    thrust = np.zeros(2, np.int64)
    thrust[axis] = notch
    return _flat_state(*move(position, speed, thrust))[axis]


def draw(axes: Any, filled: bool = True) -> None:
    """The world in lattice units: walls, start box, hazard, goal; only their outlines where a map lies below."""
    from matplotlib.patches import Circle, Rectangle

    width, height = START_HIGH - START_LOW
    edge = "none" if filled else "#8a8a8a"
    for patch in (
        Rectangle(tuple(START_LOW), width, height, facecolor="#e8e8e8", edgecolor=edge),
        Circle(tuple(HAZARD), HAZARD_RADIUS, facecolor="#f3c6bd", edgecolor="#d55e00", linewidth=1),
        Circle(tuple(GOAL), GOAL_RADIUS, facecolor="#c9e8d9", edgecolor="#009e73", linewidth=1),
    ):
        patch.set_fill(filled)
        axes.add_patch(patch)
    axes.set_xlim(-HALF_SIZE[0], HALF_SIZE[0])
    axes.set_ylim(-HALF_SIZE[1], HALF_SIZE[1])
    axes.set_aspect("equal")


def film(obs: Array) -> Film:
    """One episode [T+1, 4] as it is watched, in lattice units."""
    position, _ = decode(check_film_rows("point", obs, (4,)))
    world = view(
        "",
        ("x", "y"),
        -HALF_SIZE - FILM_MARGIN,
        HALF_SIZE + FILM_MARGIN,
        box(-HALF_SIZE, HALF_SIZE, "ground"),
        box(START_LOW, START_HIGH, "region"),
        circle(HAZARD, HAZARD_RADIUS, "danger"),
        circle(GOAL, GOAL_RADIUS, "goal"),
    )
    facts = {"views": [world], "bodies": [body("point", "agent", trail=True)]}
    return Film("paths", facts, {"view0": position[:, None, :]})


def probe() -> Probe:
    """Every second place on the lattice, heading for the goal at half speed."""
    x, y = (np.arange(-size, size + 1, 2) for size in HALF_SIZE)
    position = np.stack(np.meshgrid(x, y), -1)
    velocity = np.broadcast_to(np.array([MAX_SPEED // 2, 0]), position.shape)
    outlines = partial(draw, filled=False)
    return Probe(encode(position, velocity), x, y, "x", "y", outlines, arrow=lambda action: action)


def make_vec(
    num_envs: int, horizon: int = HORIZON, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
) -> BatchedEnv:
    """Many points at once."""
    if horizon < 1:
        raise RciError(f"horizon must be at least 1 step, got {horizon}.")
    return BatchedEnv(PointSimulator(num_envs, horizon), num_envs, autoreset_mode)


def make(horizon: int = HORIZON) -> SingleEnv:
    """One point."""
    return SingleEnv(make_vec(1, horizon))


TASK = Task(
    name="point",
    obs_shape=(4,),
    make_vec=make_vec,
    make=make,
    unsafe=unsafe,
    distance=hazard_distance,
    behaviours={"seeker": seek_goal, "random": uniform_actions(2)},
    recipes={
        "seeker": {"seeker": 1.0},
        "random": {"random": 1.0},
        "mixed": {"seeker": 0.5, "random": 0.5},
        "ppo": {"ppo": 1.0},
    },
    risk=risk,
    views=(View("", lambda obs: decode(obs)[0], draw),),
    film=film,
    probe=probe,
)

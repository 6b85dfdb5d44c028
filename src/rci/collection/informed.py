"""The informed driver: PPO that sees the true costs, for what is possible when the danger is known.

It is a reference and no method: it is trained online, in the simulator, with the rule that labels come from. Violations
have a price, from the first step on, or once the reward alone has been learned by a driver who is blind to safety. The
order matters: from scratch, the first thing that a price teaches is to get out of everybody's way, off the road if need
be; who can drive fast already learns to keep a distance while driving fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from rci.collection.ppo import Actor, Config, blank_start, mean_action, noisy_action, scaling_of
from rci.collection.training import Start, train
from rci.data.artefacts.models import Informed, SavedModel
from rci.data.errors import RciError
from rci.data.record import Array, expect
from rci.nets.arrays import from_arrays, to_arrays
from rci.tasks import get
from rci.tasks.rollout import BLIND, PRICED


def train_informed(
    task_name: str,
    price: float,
    seed: int = 0,
    config: Config | None = None,
    blind: Informed | None = None,
    world: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Informed:
    """Train a driver to whom a violation costs `price`, and ends what is to be earned; a price of 0 is a blind driver.

    blind: a driver of price 0 to go on from; otherwise training begins with nothing. world: changes of the task's
    configuration.
    """
    check_price(price)
    config, task, world = config or Config(), get(task_name), dict(world or {})
    if blind is not None:
        expect(Informed, blind=blind)
        if price == 0.0:
            raise RciError("a blind driver goes on from nothing; give it a price.")
        if (blind.info["task"], blind.info["world"], blind.info["price"]) != (task_name, world, 0.0):
            raise RciError(f"the blind driver is not one of {task_name!r} in the same world.")
    start = None if blind is None else _end_of(blind)
    purpose = BLIND if price == 0.0 else PRICED
    training = train(task_name, seed, purpose, config, price, start, world, progress)
    facts = {
        "task": task_name,
        "world": world,
        "price": float(price),
        "seed": seed,
        "curve": training.curve,
        "obs_shape": list(task.obs_shape),
        "action_size": len(training.end.networks.log_deviation),
    }
    return Informed(SavedModel("ppo", asdict(config), to_arrays(training.end)), facts)


def check_price(price: float) -> None:
    """Refuse anything but a price."""
    if not 0.0 <= price < math.inf:
        raise RciError(f"the price of a violation must be a number, 0 or more, got {price}.")


def drive(informed: Informed, rng: np.random.Generator | None = None) -> Callable[[Array], Array]:
    """What the driver does, obs [n, ...] -> action [n, a]; with a generator with the noise of its training."""
    expect(Informed, informed=informed)
    end = _end_of(informed)
    actor = Actor(scaling_of(end.obs_moments), end.networks.actor, end.networks.log_deviation)
    if rng is not None:
        return partial(noisy_action, actor, rng)
    return lambda obs: np.clip(np.asarray(mean_action(actor, obs.reshape(len(obs), -1))), -1.0, 1.0)


def _end_of(informed: Informed) -> Start:
    config, info = Config(**informed.model.config), informed.info
    blank = blank_start(config, int(np.prod(info["obs_shape"])), info["action_size"])
    return from_arrays(Start(*blank), informed.model.arrays)

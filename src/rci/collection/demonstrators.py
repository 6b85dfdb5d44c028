"""Demonstrators: PPO policies of growing skill that record data.

They are trained on the task's reward alone. The rule of what is unsafe is looked at for the training curve only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import jax
import numpy as np

from rci.collection.ppo import Config, blank_actor, noisy_action
from rci.collection.training import train
from rci.data.artefacts.models import Demonstrators, SavedModel
from rci.data.record import expect
from rci.nets.arrays import from_arrays, to_arrays
from rci.tasks import get
from rci.tasks.base import BehaviourPolicy
from rci.tasks.rollout import TRAINING


def train_demonstrators(
    task_name: str,
    seed: int = 0,
    config: Config | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Demonstrators:
    """Train PPO on a task's reward and keep policies from along the way; same seed, same bits."""
    config = config or Config()
    training = train(task_name, seed, TRAINING, config, progress=progress)
    arrays = to_arrays(jax.tree.map(lambda *leaves: np.stack(leaves), *training.kept))
    facts = {
        "task": task_name,
        "seed": seed,
        "curve": training.curve,
        "checkpoints": training.checkpoints,
        "obs_shape": list(get(task_name).obs_shape),
        "action_size": len(training.kept[0].log_deviation),
    }
    return Demonstrators(SavedModel("ppo", asdict(config), arrays), facts)


def behaviours(demonstrators: Demonstrators) -> dict[str, BehaviourPolicy]:
    """One behaviour per checkpoint, ppo-1 the least trained; its luck is the generator's that it is given."""
    expect(Demonstrators, demonstrators=demonstrators)
    info, config = demonstrators.info, Config(**demonstrators.model.config)
    blank = blank_actor(config, int(np.prod(info["obs_shape"])), info["action_size"])
    count = len(info["checkpoints"])
    stacked = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype), blank)
    actors = from_arrays(stacked, demonstrators.model.arrays)
    leaves, tree = jax.tree.flatten(actors)
    each = [jax.tree.unflatten(tree, [leaf[i] for leaf in leaves]) for i in range(count)]
    return {f"ppo-{i}": partial(noisy_action, actor) for i, actor in enumerate(each, 1)}

"""Third stage: one bit per episode becomes a cost per step that sums exactly to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import jax
import numpy as np

from rci.data.batch import flatten, sequences
from rci.data.errors import RciError, unknown_name
from rci.data.options import build_parts
from rci.data.record import Array
from rci.data.types import Episodes, Labels, SavedModel, StepCosts
from rci.nets.arrays import from_arrays, to_arrays
from rci.redistribution import baselines, rudder
from rci.redistribution.base import Method
from rci.redistribution.conserve import Conservation, conserve, difference
from rci.redistribution.fit import Training, fit
from rci.redistribution.quality import assess

REDISTRIBUTORS: dict[str, Method] = {
    "rudder": Method(rudder.make, rudder.Config, rudder.Hyper),
    "uniform": Method(baselines.make_uniform, baselines.Config, baselines.Hyper),
    "sparse": Method(baselines.make_sparse, baselines.Config, baselines.Hyper),
    "oracle": Method(baselines.make_oracle, baselines.Config, baselines.Hyper),
}

__all__ = ["REDISTRIBUTORS", "redistribute", "score"]


def redistribute(
    episodes: Episodes,
    labels: Labels,
    method: str = "rudder",
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
    **options: Any,
) -> StepCosts:
    """Step costs of labelled episodes by one of REDISTRIBUTORS.

    options: settings of the method (rudder: hidden, loss, learning_rate), of its training (epochs, batch_size,
    patience, held_out_share) and of conservation (start, compensation, sign).
    """
    config, hyper, training, rule = parse_options(method, options)
    labels.check_parent(episodes)
    redistributor = REDISTRIBUTORS[method].make(config)
    data = sequences(episodes, labels)
    lengths = labels.kept_lengths
    info: dict[str, Any] = {}
    model = None
    if redistributor.update is None:
        prediction = redistributor.predict(redistributor.init(jax.random.key(seed), data), episodes, lengths)
    else:
        _refuse_one_sided(labels)
        fitted = fit(redistributor, data, hyper, training, seed, progress)
        prediction = redistributor.predict(fitted.state, episodes, lengths)
        unseen = fitted.held_out
        info = {
            "epochs": len(fitted.train_loss),
            "train_loss": fitted.train_loss,
            "held_out_loss": fitted.held_out_loss,
            "held_out_episodes": unseen.tolist(),
        }
        if redistributor.scores == "prefix":
            info |= assess(prediction[unseen], lengths[unseen], labels.cost[unseen])
        sizes = {"obs_size": data.obs.shape[-1], "action_size": data.action.shape[-1]}
        model = SavedModel(method, {**asdict(config), **sizes}, to_arrays(fitted.state))
    mask = data.mask > 0
    if redistributor.scores == "prefix":
        start = float(labels.cost.mean()) if rule.start == "prior" else 0.0
        step = difference(prediction, mask, start)
    else:
        step = prediction
    if redistributor.return_equivalent:
        step = conserve(step, mask, labels.cost, _override(rule, redistributor.compensation))
    return StepCosts(
        cost=flatten(step, lengths),
        lengths=lengths,
        episodic_cost=labels.cost,
        return_equivalent=redistributor.return_equivalent,
        method=method,
        labels_hash=labels.hash,
        model=model,
        info=info,
    )


def score(costs: StepCosts, episodes: Episodes) -> list[Array]:
    """What the model fitted for `costs` predicts from every prefix of new episodes, one array per episode."""
    model = costs.model
    if model is None:
        raise RciError(
            f"the step costs of {costs.method!r} come without a fitted model, so nothing can be scored."
        )
    sizes = {
        "obs_size": int(np.prod(episodes.obs.shape[1:])),
        "action_size": int(np.prod(episodes.action.shape[1:])),
    }
    settings = dict(model.config)
    for name, size in sizes.items():
        if (expected := settings.pop(name)) != size:
            raise RciError(f"the model was fitted with {name} {expected}, these episodes have {size}.")
    method = REDISTRIBUTORS[model.method]
    redistributor = method.make(method.config(**settings))
    blank = sequences(episodes, Labels.for_episodes(episodes, np.full(len(episodes), -1)))
    template = jax.eval_shape(redistributor.init, jax.random.key(0), blank)
    state = from_arrays(template, model.arrays)
    block = redistributor.predict(state, episodes, episodes.lengths)
    return np.split(flatten(block, episodes.lengths), episodes.step_offset[1:-1])


def parse_options(method: str, options: dict[str, Any]) -> tuple[Any, Any, Training, Conservation]:
    """Check the name of a method and its settings without running it."""
    if method not in REDISTRIBUTORS:
        raise unknown_name("redistributor", method, REDISTRIBUTORS)
    entry = REDISTRIBUTORS[method]
    config, hyper, training, rule = build_parts(
        (entry.config, entry.hyper, Training, Conservation), options, method
    )
    return config, hyper, training, rule


def _override(rule: Conservation, compensation: Any) -> Conservation:
    return rule if compensation is None else Conservation(rule.start, compensation, rule.sign)


def _refuse_one_sided(labels: Labels) -> None:
    for stopped, word, meaning in ((True, "stopped", "unsafe"), (False, "stopped", "safe")):
        if (labels.stopped == stopped).all():
            how = "all" if stopped else "none"
            raise RciError(
                f"{how} of the {len(labels)} episodes {'were' if stopped else 'was'} {word}: where every episode is "
                f"{meaning}, nothing tells a costly step from a harmless one, so no redistributor can learn. Label "
                f"episodes of both kinds, or use 'sparse' or 'uniform'."
            )

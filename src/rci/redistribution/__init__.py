"""Third stage: one bit per episode becomes a cost per step that sums exactly to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

from rci.data.batch import flatten, sequences
from rci.data.errors import RciError, unknown_name
from rci.data.options import build_parts
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels, SavedModel, StepCosts
from rci.nets.arrays import from_arrays, to_arrays
from rci.nets.keys import stage_key
from rci.redistribution import baselines, rudder, traces, transformer
from rci.redistribution.base import Method, Redistributor, Training
from rci.redistribution.conserve import Conservation, conserve, difference
from rci.redistribution.distil import Distillation, distil
from rci.redistribution.fit import Fitted, fit_folds
from rci.redistribution.quality import assess

REDISTRIBUTORS: dict[str, Method] = {
    "rudder": Method(rudder.make, rudder.Config, rudder.Hyper),
    "transformer": Method(transformer.make, transformer.Config, transformer.Hyper),
    "traces": Method(traces.make, traces.Config, traces.Hyper),
    "uniform": Method(baselines.make_uniform, baselines.Config, baselines.Hyper, (Distillation,)),
    "sparse": Method(baselines.make_sparse, baselines.Config, baselines.Hyper, (Distillation,)),
    "oracle": Method(baselines.make_oracle, baselines.Config, baselines.Hyper, (Conservation, Distillation)),
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
    patience, stopping_share, held_out_share, folds), of conservation (start, compensation, sign) and of
    distillation (distil and distil_...).
    """
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    config, hyper, training, rule, distillation = parse_options(method, options)
    labels.check_parent(episodes)
    redistributor = REDISTRIBUTORS[method].make(config)
    data = sequences(episodes, labels)
    lengths, mask = labels.kept_lengths, data.mask > 0
    info: dict[str, Any] = {}
    model = None
    if redistributor.update is None:
        prediction = redistributor.predict(
            redistributor.init(stage_key(seed, "redistribute"), data), episodes, lengths
        )
    else:
        _refuse_one_sided(labels)
        fits = fit_folds(redistributor, data, hyper, training, seed, progress)
        prediction = predict_folds(redistributor, fits, episodes, lengths)
        info = fit_info(redistributor, fits, prediction, lengths, labels.cost)
        sizes = {"obs_size": data.obs.shape[-1], "action_size": data.action.shape[-1], "models": len(fits)}
        model = SavedModel(method, {**asdict(config), **sizes}, to_arrays([fit.state for fit in fits]))
    step = prediction
    if redistributor.scores == "prefix":
        step = difference(prediction, mask, float(labels.cost.mean()) if rule.start == "prior" else 0.0)
    rule = replace(rule, compensation=redistributor.compensation or rule.compensation)
    if redistributor.return_equivalent:
        step = conserve(step, mask, labels.cost, rule)
    if distillation.distil:
        step = distil(step, data, distillation, seed)
        if redistributor.return_equivalent:
            step = conserve(step, mask, labels.cost, rule)
    return StepCosts(
        cost=flatten(step, lengths),
        lengths=lengths,
        episodic_cost=labels.cost,
        return_equivalent=redistributor.return_equivalent,
        method=method,
        labels_hash=labels.hash,
        model=model,
        info={**info, "conservation": asdict(rule), "distillation": asdict(distillation)},
    )


def predict_folds(
    redistributor: Redistributor, fits: list[Fitted], episodes: Episodes, lengths: Array
) -> Array:
    """[N, T] predictions: of the one model there is, or, cross-fitted, of the model that never saw the episode."""
    blocks = [redistributor.predict(fit.state, episodes, lengths) for fit in fits]
    result = blocks[0]
    for fit, block in zip(fits[1:], blocks[1:]):
        result[fit.held_out] = block[fit.held_out]
    return result


def fit_info(
    redistributor: Redistributor, fits: list[Fitted], prediction: Array, lengths: Array, cost: Array
) -> dict[str, Any]:
    """What the manifest says of the fit: the curves of the first model, and quality on unseen episodes."""
    unseen = np.sort(np.concatenate([fit.held_out for fit in fits]))
    info = {
        "models": len(fits),
        "epochs": len(fits[0].train_loss),
        "train_loss": fits[0].train_loss,
        "held_out_loss": fits[0].held_out_loss,
        "held_out_episodes": len(unseen),
    }
    if redistributor.scores == "prefix":
        info |= assess(prediction[unseen], lengths[unseen], cost[unseen])
    return info


def score(costs: StepCosts, episodes: Episodes) -> list[Array]:
    """What was fitted for `costs` predicts from every prefix of new episodes, one array per episode.

    Cross-fitted models answer with their mean.
    """
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
    models = settings.pop("models")
    for name, size in sizes.items():
        if (expected := settings.pop(name)) != size:
            raise RciError(f"the model was fitted with {name} {expected}, these episodes have {size}.")
    method = REDISTRIBUTORS[model.method]
    redistributor = method.make(method.config(**settings))
    blank = sequences(episodes, Labels.for_episodes(episodes, np.full(len(episodes), -1)))
    template = [jax.eval_shape(redistributor.init, jax.random.key(0), blank)] * models
    states = from_arrays(template, model.arrays)
    block = np.mean([redistributor.predict(state, episodes, episodes.lengths) for state in states], axis=0)
    return np.split(flatten(block, episodes.lengths), episodes.step_offset[1:-1])


def parse_options(
    method: str, options: dict[str, Any]
) -> tuple[Any, Any, Training, Conservation, Distillation]:
    """Check the name of a method and its settings without running it."""
    if method not in REDISTRIBUTORS:
        raise unknown_name("redistributor", method, REDISTRIBUTORS)
    entry = REDISTRIBUTORS[method]
    config, hyper, *shared = build_parts((entry.config, entry.hyper, *entry.shared), options, method)
    given: dict[type, Any] = {type(part): part for part in shared}
    training, rule, distillation = (
        given.get(kind, kind()) for kind in (Training, Conservation, Distillation)
    )
    return config, hyper, training, rule, distillation


def _refuse_one_sided(labels: Labels) -> None:
    count = int(labels.stopped.sum())
    if 0 < count < len(labels):
        return
    said, kind = (
        ("none of the {} episodes was", "safe") if count == 0 else ("all of the {} episodes were", "unsafe")
    )
    raise RciError(
        f"{said.format(len(labels))} stopped: where every episode is {kind}, nothing tells a costly step from a "
        "harmless one, so no redistributor can learn. Label episodes of both kinds, or use 'sparse' or 'uniform'."
    )

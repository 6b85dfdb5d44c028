"""One member of an ensemble: fit a method to labels, channel by channel, and make exact step costs of its scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import jax
import numpy as np

from rci.data.batch import Sequences, flatten, sequences
from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episodes, Labels, SavedModel, StepCosts
from rci.nets.arrays import from_arrays, to_arrays
from rci.nets.keys import derived_seed, stage_key
from rci.redistribution.base import Method, Redistributor, Training, made
from rci.redistribution.conserve import Conservation, conserve, difference
from rci.redistribution.distil import Distillation, distil
from rci.redistribution.ensemble import Ensemble
from rci.redistribution.fit import Fitted, fit_folds, part_of
from rci.redistribution.quality import assess, forecast_of, matched_pairs_accuracy


class Settings(NamedTuple):
    """Everything that can be set, part by part."""

    config: Any
    hyper: Any
    training: Training
    conservation: Conservation
    distillation: Distillation
    ensemble: Ensemble


class Column(NamedTuple):
    """One channel: its scores [N, T], what the fit says of itself, the fitted states."""

    scores: Array
    prior: float  # what the empty prefix predicts if it does not predict zero
    info: dict[str, Any]
    states: list[Any]


def fit_member(
    name: str,
    redistributor: Redistributor,
    settings: Settings,
    episodes: Episodes,
    labels: Labels,
    seed: int,
    progress: Callable[[float], None],
) -> StepCosts:
    """Step costs of one fitted model per channel, or of one per channel and fold."""
    data = sequences(episodes, labels)
    count = labels.channel_cost.shape[1]
    columns = []
    for number in range(count):
        part = data._replace(cost=labels.channel_cost[:, number].astype(np.float32))
        own = channel_seed(seed, number), part_of(progress, number, count)
        columns.append(_fit_column(redistributor, settings, episodes, labels, number, part, *own))
    model = None
    if columns[0].states:
        shape = {"members": 1, "channels": count, "folds": len(columns[0].states)}
        sizes = {"obs_size": data.obs.shape[-1], "action_size": data.action.shape[-1]}
        states = [[column.states for column in columns]]
        model = SavedModel(name, {**asdict(settings.config), **sizes, **shape}, to_arrays(states))
    info = columns[0].info
    if labels.channels:
        info = {"by_channel": {c: column.info for c, column in zip(labels.channels, columns)}}
    info = {
        **info,
        "conservation": asdict(settings.conservation),
        "distillation": asdict(settings.distillation),
        "prior": [column.prior for column in columns],
    }
    scores, priors = [column.scores for column in columns], [column.prior for column in columns]
    return assemble(name, redistributor, settings, scores, priors, data, labels, seed, model, info)


def channel_seed(seed: int, channel: int) -> int:
    """The seed of a channel; the first one is what a single channel would have had."""
    return seed if channel == 0 else derived_seed(seed, 0, channel)


def assemble(
    name: str,
    redistributor: Redistributor,
    settings: Settings,
    scores: Sequence[Array],
    priors: Sequence[float],
    data: Sequences,
    labels: Labels,
    seed: int,
    model: SavedModel | None,
    info: dict[str, Any],
) -> StepCosts:
    """Scores [N, T] of every channel as step costs."""
    steps = [
        step_costs(redistributor, settings, column, prior, data, cost, seed)
        for column, prior, cost in zip(scores, priors, labels.channel_cost.T)
    ]
    flat = [flatten(step, labels.kept_lengths) for step in steps]
    return StepCosts(
        cost=np.stack(flat, axis=-1) if labels.channels else flat[0],
        lengths=labels.kept_lengths,
        episodic_cost=labels.cost,
        return_equivalent=redistributor.return_equivalent,
        method=name,
        labels_hash=labels.hash,
        model=model,
        info=info,
        channels=labels.channels,
        unit=redistributor.unit,
    )


def step_costs(
    redistributor: Redistributor,
    settings: Settings,
    scores: Array,
    prior: float,
    data: Sequences,
    cost: Array,
    seed: int,
) -> Array:
    """Scores [N, T] -> step costs [N, T], differenced, conserved and distilled as asked for."""
    mask, rule = np.asarray(data.mask) > 0, settings.conservation
    if redistributor.compensation is not None:
        rule = Conservation(rule.start, redistributor.compensation, rule.sign)
    step = scores
    if redistributor.scores == "prefix":
        step = difference(scores, mask, prior if rule.start == "prior" else 0.0)
    if redistributor.return_equivalent:
        step = conserve(step, mask, cost, rule)
    if settings.distillation.distil:
        step = distil(step, data, settings.distillation, seed)
        if redistributor.return_equivalent:
            step = conserve(step, mask, cost, rule)
    return step


def restore_states(entry: Method, model: SavedModel, episodes: Episodes) -> tuple[Redistributor, Any]:
    """A saved model's redistributor and its states, by member, channel and fold; episodes must have its sizes."""
    settings = dict(model.config)
    if "members" not in settings:
        raise RciError(
            "the models of these step costs are of an older version; redistribute again to use them."
        )
    shape = [settings.pop(name) for name in ("members", "channels", "folds")]
    sizes = {
        "obs_size": int(np.prod(episodes.obs.shape[1:])),
        "action_size": int(np.prod(episodes.action.shape[1:])),
    }
    for name, size in sizes.items():
        if (expected := settings.pop(name)) != size:
            raise RciError(f"the model was fitted with {name} {expected}, these episodes have {size}.")
    redistributor = made(entry.make, entry.config(**settings))
    obs, action = (np.zeros((1, 1, size), np.float32) for size in sizes.values())
    blank = Sequences(obs, action, np.ones((1, 1), np.float32), np.zeros(1, np.float32))
    state = jax.eval_shape(redistributor.init, jax.random.key(0), blank)
    template = [[[state] * shape[2] for _ in range(shape[1])] for _ in range(shape[0])]
    return redistributor, from_arrays(template, model.arrays)


def mean_scores(redistributor: Redistributor, folds: list[Any], episodes: Episodes, lengths: Array) -> Array:
    """[N, T] scores of episodes that no fold has seen: cross-fitted models answer with their mean."""
    return np.mean([redistributor.predict(state, episodes, lengths) for state in folds], axis=0)


def _fit_column(
    redistributor: Redistributor,
    settings: Settings,
    episodes: Episodes,
    labels: Labels,
    number: int,
    data: Sequences,
    seed: int,
    progress: Callable[[float], None],
) -> Column:
    lengths, cost = labels.kept_lengths, labels.channel_cost[:, number]
    if redistributor.update is None:
        state = redistributor.init(stage_key(seed, "redistribute"), data)
        return Column(redistributor.predict(state, episodes, lengths), float(cost.mean()), {}, [])
    _refuse_one_sided(cost, labels.channels[number] if labels.channels else "")
    fits = fit_folds(redistributor, data, settings.hyper, settings.training, seed, progress)
    scores = _predict_folds(redistributor, fits, episodes, lengths)
    # In balanced batches every second episode is stopped, whatever the data say.
    prior = cost[cost > 0].mean() / 2 if settings.training.balance else cost.mean()
    info = _fit_info(redistributor, fits, scores, lengths, cost)
    return Column(scores, float(prior), info, [fit.state for fit in fits])


def _predict_folds(
    redistributor: Redistributor, fits: list[Fitted], episodes: Episodes, lengths: Array
) -> Array:
    """[N, T] scores: of the one model there is, or, cross-fitted, of the model that never saw the episode."""
    blocks = [redistributor.predict(fit.state, episodes, lengths) for fit in fits]
    result = blocks[0]
    for fit, block in zip(fits[1:], blocks[1:]):
        result[fit.held_out] = block[fit.held_out]
    return result


def _fit_info(
    redistributor: Redistributor, fits: list[Fitted], scores: Array, lengths: Array, cost: Array
) -> dict[str, Any]:
    """What the manifest says of the fit: the curves of the first model, and quality on unseen episodes."""
    unseen = np.sort(np.concatenate([fit.held_out for fit in fits]))
    info: dict[str, Any] = {
        "models": len(fits),
        "epochs": len(fits[0].train_loss),
        "train_loss": fits[0].train_loss,
        "held_out_loss": fits[0].held_out_loss,
        "held_out_episodes": len(unseen),
    }
    forecast = forecast_of(redistributor)
    evidence = np.cumsum(scores, axis=1) if forecast is None else forecast(scores)
    info |= matched_pairs_accuracy(evidence[unseen], lengths[unseen], cost[unseen] > 0)
    if forecast is not None:
        info |= assess(evidence[unseen], lengths[unseen], cost[unseen])
    if redistributor.findings is not None:
        info["findings"] = redistributor.findings(fits[0].state)
    return info


def _refuse_one_sided(cost: Array, channel: str) -> None:
    count = int((cost > 0).sum())
    if 0 < count < len(cost):
        return
    said, kind = ("none", "safe") if count == 0 else ("every one", "unsafe")
    why = f" for {channel!r}" if channel else ""
    raise RciError(
        f"{said} of the {len(cost)} episodes was stopped{why}: where every episode is {kind}, nothing tells a costly "
        "step from a harmless one, so no redistributor can learn. Label episodes of both kinds, or use 'sparse' or "
        "'uniform'."
    )

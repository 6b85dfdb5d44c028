"""Third stage: one bit per episode becomes a cost per step that sums exactly to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_type_hints

import numpy as np

from rci.data.batch import flatten, sequences
from rci.data.errors import RciError, unknown_method
from rci.data.options import build, build_parts
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels, SavedModel, StepCosts
from rci.redistribution.base import Method, Redistributor, Training, made
from rci.redistribution.conserve import Conservation
from rci.redistribution.distil import Distillation
from rci.redistribution.ensemble import Ensemble, combine, member_seed
from rci.redistribution.fit import part_of
from rci.redistribution.member import Settings, assemble, fit_member, mean_scores, restore_states
from rci.redistribution.methods import (
    baselines,
    grd,
    hazard,
    potential,
    rlsf,
    rrd,
    rudder,
    traces,
    transformer,
)
from rci.redistribution.stop_chance import entropy, stop_chance

REDISTRIBUTORS: dict[str, Method] = {
    "rudder": Method(rudder.make, rudder.Config, rudder.Hyper),
    "potential": Method(potential.make, potential.Config, potential.Hyper),
    "transformer": Method(transformer.make, transformer.Config, transformer.Hyper),
    "rrd": Method(rrd.make, rrd.Config, rrd.Hyper),
    "grd": Method(grd.make, grd.Config, grd.Hyper),
    "traces": Method(traces.make, traces.Config, traces.Hyper),
    "hazard": Method(hazard.make, hazard.Config, hazard.Hyper),
    "rlsf": Method(rlsf.make, rlsf.Config, rlsf.Hyper),
    "uniform": Method(baselines.make_uniform, baselines.Config, baselines.Hyper, (Distillation,)),
    "sparse": Method(baselines.make_sparse, baselines.Config, baselines.Hyper, (Distillation,)),
    "oracle": Method(baselines.make_oracle, baselines.Config, baselines.Hyper, (Conservation, Distillation)),
}

__all__ = ["REDISTRIBUTORS", "combine", "redistribute", "score", "transfer", "uncertainty"]


def redistribute(
    episodes: Episodes,
    labels: Labels,
    method: str = "rudder",
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
    **options: Any,
) -> StepCosts:
    """Step costs of labeled episodes by one of REDISTRIBUTORS, in every channel of the labels.

    options: settings of the method (rudder: hidden, loss, cell, learning_rate), of its training (epochs, batch_size,
    patience, stopping_share, held_out_share, folds, balance, crop), of conservation (start, compensation, sign), of
    distillation (distil and distil_...) and of an ensemble (members, pessimism).
    """
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    settings = parse_options(method, options)
    labels.check_parent(episodes)
    redistributor = made(REDISTRIBUTORS[method].make, settings.config)
    count = settings.ensemble.members
    members = []
    for number in range(count):
        own = member_seed(seed, number), part_of(progress, number, count)
        members.append(fit_member(method, redistributor, settings, episodes, labels, *own))
    return combine(members, settings.ensemble.pessimism)


def score(costs: StepCosts, episodes: Episodes) -> list[Array]:
    """What was fitted for `costs` answers to every step of new episodes, one array per episode.

    For methods that predict from prefixes these are predicted episodic costs. Folds and members answer with their
    mean; with channels there is a column for each.
    """
    model = _model_of(costs)
    redistributor, states = restore_states(REDISTRIBUTORS[model.method], model, episodes)
    blocks = [
        np.mean(
            [mean_scores(redistributor, member[k], episodes, episodes.lengths) for member in states], axis=0
        )
        for k in range(len(states[0]))
    ]
    flat = [flatten(block, episodes.lengths) for block in blocks]
    return np.split(
        np.stack(flat, axis=-1) if costs.channels else flat[0], np.asarray(episodes.step_offset[1:-1])
    )


def uncertainty(costs: StepCosts, episodes: Episodes) -> Array:
    """How uncertain the models behind `costs` are of the label of each episode, in bits.

    Members of an ensemble that disagree make it uncertain too. With channels, the most uncertain one counts.
    """
    expect(StepCosts, costs=costs)
    expect(Episodes, episodes=episodes)
    model = _model_of(costs)
    redistributor, states = restore_states(REDISTRIBUTORS[model.method], model, episodes)
    chances = [
        [
            stop_chance(
                redistributor,
                mean_scores(redistributor, channel, episodes, episodes.lengths),
                episodes.lengths,
            )
            for channel in member
        ]
        for member in states
    ]
    return np.asarray(entropy(np.mean(chances, axis=0)).max(axis=0))


def transfer(costs: StepCosts, episodes: Episodes, labels: Labels, pessimism: float = 0.0) -> StepCosts:
    """Step costs of other labeled episodes by the models that were fitted for `costs`, with its conservation.

    With an ensemble, the spread says where the models are on unknown ground.
    """
    expect(StepCosts, costs=costs)
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    model = _model_of(costs)
    labels.check_parent(episodes)
    distillation = build(Distillation, costs.info["distillation"], "distillation")
    if distillation.distil:
        raise RciError(
            "these step costs were distilled, and what distilled them is not kept: redistribute without distil."
        )
    if labels.channels != costs.channels:
        raise RciError(
            f"the models know the channels {list(costs.channels)}, but these labels have {list(labels.channels)}."
        )
    redistributor, states = restore_states(REDISTRIBUTORS[model.method], model, episodes)
    build(
        Ensemble, {"members": max(2, len(states)), "pessimism": pessimism}, "transfer"
    )  # a number from 0 on
    if pessimism and len(states) == 1:
        raise RciError("pessimism needs models that disagree, and these costs are of a single one.")
    rule = build(Conservation, costs.info["conservation"], "conservation")
    settings = Settings(None, None, Training(), rule, distillation, Ensemble())
    data, prior = sequences(episodes, labels), costs.info["prior"]
    info = {name: costs.info[name] for name in ("conservation", "distillation", "prior")}
    info["transferred_from"] = costs.labels_hash
    members = []
    for member in states:
        scores = [mean_scores(redistributor, folds, episodes, labels.kept_lengths) for folds in member]
        members.append(
            assemble(costs.method, redistributor, settings, scores, prior, data, labels, 0, None, info)
        )
    return replace(combine(members, pessimism), model=model)


def parse_options(method: str, options: dict[str, Any]) -> Settings:
    """Check the name of a method and its settings without running it."""
    if method not in REDISTRIBUTORS:
        raise unknown_method(
            "redistributor", method, {name: one.make for name, one in REDISTRIBUTORS.items()}
        )
    entry = REDISTRIBUTORS[method]
    config, hyper, *shared = build_parts((entry.config, entry.hyper, *entry.shared), options, method)
    given: dict[type, Any] = {type(part): part for part in shared}
    parts = (given.get(kind, kind()) for kind in (Training, Conservation, Distillation, Ensemble))
    settings = Settings(config, hyper, *parts)
    _refuse_idle(method, made(entry.make, config), settings, options)
    return settings


def _refuse_idle(
    method: str, redistributor: Redistributor, settings: Settings, options: dict[str, Any]
) -> None:
    """Refuse a setting that would change nothing."""
    conserving = set(options) & set(get_type_hints(Conservation))
    if conserving and not redistributor.return_equivalent:
        raise RciError(
            f"{min(conserving)} has no effect: the costs of {method!r} are not made to sum to the episodic cost"
            f"{', unless conserve is true' if hasattr(settings.config, 'conserve') else ''}."
        )
    distilling = set(options) & set(get_type_hints(Distillation)) - {"distil"}
    for name, idle, why in (
        ("start", redistributor.scores == "step", f"{method!r} predicts nothing from an empty prefix"),
        ("held_out_share", settings.training.folds > 1, "with folds, every fold is held out once"),
        *((name, not settings.distillation.distil, "distil is not set") for name in sorted(distilling)),
    ):
        if name in options and idle:
            raise RciError(f"{name} has no effect: {why}.")


def _model_of(costs: StepCosts) -> SavedModel:
    if costs.model is None:
        raise RciError(
            f"the step costs of {costs.method!r} come without a fitted model, so nothing can be scored."
        )
    return costs.model

"""What an artefact holds, in sentences with units: what a command prints of what it made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rci.data import store
from rci.data.record import fitting
from rci.data.risk.budgets import in_words
from rci.data.types import Behaviour, Demonstrators, Episodes, Labels, Oracle, Policy, Scores, StepCosts

MODELS = {"mixture": "a mixture of Gaussians", "vae": "a variational autoencoder"}


def sentences(path: Path) -> str:
    """The artefact in a folder, in one or a few sentences that begin with its path."""
    record = store.read(path, verify=False)
    with fitting(str(path)):
        said = SENTENCES[type(record)](record) if type(record) in SENTENCES else [_of_another(record)]
    return f"{path}: {' '.join(said)}"


def _of_episodes(record: Episodes) -> list[str]:
    steps, rate = int(record.lengths.sum()), _rate(record.task)
    lasting = f", {_time(steps / rate)} at {rate:g} steps per second" if rate else ""
    of = f" of {record.task}" if record.task else ""
    shortest, longest = record.lengths.min(), record.lengths.max()
    return [f"{_count(record, 'episode')}{of} with {steps:,} steps ({shortest} to {longest} each{lasting})."]


def _of_oracle(record: Oracle) -> list[str]:
    unsafe = sum(bool(part.any()) for part in np.split(record.unsafe, np.cumsum(record.lengths)[:-1]))
    return [f"The truth about {len(record.lengths):,} episodes: {unsafe:,} of them became unsafe."]


def _of_labels(record: Labels) -> list[str]:
    stopped = int(record.stopped.sum())
    said = [f"{stopped:,} of {_count(record, 'episode')} were stopped ({stopped / len(record):.1%})."]
    if record.channels:
        fired = (record.channel_cost > 0).sum(axis=0)
        said.append(f"By kind of danger: {', '.join(f'{n} {k}' for n, k in zip(record.channels, fired))}.")
    return said


def _of_costs(record: StepCosts) -> list[str]:
    exact = (
        "they sum exactly to the label of their episode"
        if record.return_equivalent
        else "their sums are not those of the labels"
    )
    said = [
        f"Costs of {len(record.cost):,} steps in {_count(record, 'episode')} by {record.method}; {exact}."
    ]
    right, episodes = record.figure("held_out_accuracy"), record.figure("held_out_episodes")
    if right is not None and episodes:
        said.append(
            f"At the end of {episodes:.0f} episodes that were held out the model is right about {right:.0%}."
        )
    return said


def _of_behaviour(record: Behaviour) -> list[str]:
    kind = MODELS.get(record.model.method, record.model.method)
    return [f"A model of the behaviour in the logs ({kind})."]


def _of_policy(record: Policy) -> list[str]:
    info, budget = record.info, str(record.info["budget"])
    allowed = "a threshold of its own" if budget == "none" else in_words(budget)
    whatever = allowed in ("no budget", "a threshold of its own")
    said = [f"A policy by {record.model.method} for {'' if whatever else 'a budget of '}{allowed}."]
    if {"expected_violation", "violation_bound"} <= set(info):
        expected, bound = (_shares(info[name]) for name in ("expected_violation", "violation_bound"))
        said.append(f"The chance of a stop is estimated at {expected}, and believed to be at most {bound}.")
    return said


def _of_scores(record: Scores) -> list[str]:
    from rci.evaluation.stats import clopper_pearson

    violated = int(record.violated.sum())
    low, high = clopper_pearson(violated, len(record))
    said = [
        f"{violated:,} of {_count(record, 'test episode')} were unsafe: {violated / len(record):.1%} "
        f"(95% interval {low:.1%} to {high:.1%}).",
        f"The mean return is {record.mean_return:.4g}, and {record.mean_return_until_stop:.4g} until the first stop.",
    ]
    by_channel = record.info.get("channel_violation_rate")
    if by_channel:
        said.append(f"By kind of danger: {_shares(by_channel)}.")
    return said


def _of_demonstrators(record: Demonstrators) -> list[str]:
    kept = record.info["checkpoints"]
    returns = ", ".join(f"{checkpoint['return']:.4g}" for checkpoint in kept)
    return [
        f"{len(kept)} demonstrators of {record.info['task']}, the last one after {kept[-1]['steps']:,} steps; mean "
        f"returns {returns}."
    ]


SENTENCES: Mapping[type, Callable[[Any], list[str]]] = {
    Episodes: _of_episodes,
    Oracle: _of_oracle,
    Labels: _of_labels,
    StepCosts: _of_costs,
    Behaviour: _of_behaviour,
    Policy: _of_policy,
    Scores: _of_scores,
    Demonstrators: _of_demonstrators,
}


def _of_another(record: Any) -> str:
    return f"{record.kind}."


def _count(record: Any, what: str) -> str:
    return f"{len(record):,} {what}{'' if len(record) == 1 else 's'}"


def _shares(value: Any) -> str:
    """A share, or one by channel."""
    return (
        ", ".join(f"{n} {v:.1%}" for n, v in value.items()) if isinstance(value, Mapping) else f"{value:.1%}"
    )


def _rate(task: str) -> float | None:
    """Steps per second of a task, where that means something."""
    from rci.tasks import TASKS

    return TASKS[task].rate if task in TASKS else None


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

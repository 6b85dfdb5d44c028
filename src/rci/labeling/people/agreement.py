"""Do annotators agree with each other, with themselves, and with what is known?

Agreement is about stopped or not, and, where both stopped, about how many steps lie between the stops. Only what
an annotator said on the first showing counts, and `unsure` does not. Later showings are compared with the first
one of the same annotator. Where two answers are about the same item, the later one counts.

Kappa is the agreement beyond chance: `(observed - chance) / (1 - chance)`; 1 is perfect, 0 is chance. It is undefined,
None here, where chance agreement is 1, that is where everybody always says the same, and where nothing is shared.
Intervals are percentile bootstraps over episodes. Where nobody ever disagreed, every resample agrees as well, so the
interval is a point; it says nothing about disagreements that are merely rare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from rci.data.record import Array
from rci.labeling.people.answers import STOP, UNSURE, Answer
from rci.labeling.people.bootstrap import RESAMPLES, SEED, Interval, percentile_interval

NO_OPINION = -2  # in a table of stop indices, where -1 is safe
UNDEFINED: Interval = (None, None)


def cohen_kappa(table: Array) -> Array:
    """Cohen's kappa of contingency tables [..., J, J]: row what the one said, column what the other; nan: undefined.

    `p_o = sum_j n_jj / n`, `p_e = sum_j n_j. n_.j / n^2`. Both are multiplied by n^2, so the numbers stay whole.
    """
    table = np.asarray(table, np.int64)
    n = table.sum(axis=(-2, -1))
    observed = n * np.trace(table, axis1=-2, axis2=-1)
    chance = (table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1)
    return _ratio(observed - chance, n * n - chance)


def fleiss_kappa(ratings: Array, times: Array | None = None) -> Array:
    """Fleiss' kappa of `ratings[i, j]`, how many raters put episode i into category j; nan: undefined.

    `P_i = (sum_j n_ij^2 - n_i) / (n_i (n_i - 1))` for the n_i >= 2 raters of episode i, who may be more or fewer than
    those of another; `p_j = sum_i n_ij / sum_i n_i`; observed is the mean of P_i, chance is `sum_j p_j^2`.
    times: how often each episode counts, [..., N]; once if not given.
    """
    ratings = np.asarray(ratings, np.int64)
    times = np.ones(len(ratings), np.int64) if times is None else np.asarray(times)
    raters = ratings.sum(axis=1)
    alike = ((ratings**2).sum(axis=1) - raters) / (raters * (raters - 1))
    observed = _ratio(times @ alike, times.sum(axis=-1))
    pooled = times @ ratings
    share = _ratio(pooled, pooled.sum(axis=-1, keepdims=True))
    chance = (share**2).sum(axis=-1)
    return _ratio(observed - chance, 1.0 - chance)


def agreement(answers: Sequence[Answer], intervals: bool = True) -> dict[str, Any]:
    """How far annotators agree, as JSON values: all of them, every pair, and each with themselves.

    "fleiss" with its interval over the "episodes" that at least two annotators have an opinion on; "pairs" with
    Cohen's kappa, and the median and the 90th percentile of the steps between the stops where both stopped;
    "repeats" as in `self_agreement`. Without `intervals`, their ends are None.
    """
    names, stops = stop_table(answers)
    said = np.stack([(stops >= 0).sum(axis=0), (stops == -1).sum(axis=0)], axis=1)
    shared = said[said.sum(axis=1) >= 2]
    low, high = fleiss_interval(shared) if intervals else UNDEFINED
    pairs = [
        {"a": names[i], "b": names[j], **pair_agreement(stops[i], stops[j], intervals)}
        for i, j in combinations(range(len(names)), 2)
    ]
    return {
        "fleiss": _or_none(fleiss_kappa(shared)),
        "fleiss_low": low,
        "fleiss_high": high,
        "episodes": len(shared),
        "pairs": pairs,
        "repeats": [{"annotator": name, **figures} for name, figures in self_agreement(answers).items()],
    }


def pair_agreement(one: Array, other: Array, intervals: bool = True) -> dict[str, Any]:
    """Two annotators. one, other: stop indices of the same episodes, -1 safe, NO_OPINION."""
    shared = (one > NO_OPINION) & (other > NO_OPINION)
    kind = 2 * (one[shared] >= 0) + (other[shared] >= 0)
    table = np.bincount(kind, minlength=4).reshape(2, 2)
    low, high = cohen_interval(table) if intervals else UNDEFINED
    both = (one >= 0) & (other >= 0)
    apart = np.abs(one[both] - other[both])
    return {
        "episodes": int(shared.sum()),
        "cohen": _or_none(cohen_kappa(table)),
        "low": low,
        "high": high,
        "both_stopped": len(apart),
        "median": float(np.median(apart)) if len(apart) else None,
        "p90": float(np.percentile(apart, 90)) if len(apart) else None,
    }


def cohen_interval(table: Array) -> Interval:
    """To draw n episodes again is one multinomial draw of the cells that they fall into."""
    if np.isnan(cohen_kappa(table)):
        return UNDEFINED
    n = int(table.sum())
    drawn = np.random.default_rng(SEED).multinomial(n, table.ravel() / n, RESAMPLES)
    return percentile_interval(cohen_kappa(drawn.reshape(RESAMPLES, *table.shape)))


def fleiss_interval(ratings: Array) -> Interval:
    """The same for Fleiss' kappa: episodes with the same ratings are drawn together."""
    if not len(ratings) or np.isnan(fleiss_kappa(ratings)):
        return UNDEFINED
    kinds, times = np.unique(ratings, axis=0, return_counts=True)
    drawn = np.random.default_rng(SEED).multinomial(len(ratings), times / len(ratings), RESAMPLES)
    return percentile_interval(fleiss_kappa(kinds, drawn))


def self_agreement(answers: Iterable[Answer]) -> dict[str, dict[str, Any]]:
    """Each annotator's later showings against their own first one: how many, the share of the same verdicts, and the
    median of the steps between the stops where both were stops."""
    said = {(a.annotator, *a.item): a for a in answers if a.verdict != UNSURE}
    pairs: dict[str, list[tuple[Answer, Answer]]] = {
        name: [] for name in sorted({name for name, _, _ in said})
    }
    for (name, episode, showing), again in said.items():
        first = said.get((name, episode, 0))
        if showing > 0 and first is not None:
            pairs[name].append((first, again))
    return {name: _compare(showings) for name, showings in pairs.items()}


def _compare(pairs: Sequence[tuple[Answer, Answer]]) -> dict[str, Any]:
    same = [first.verdict == again.verdict for first, again in pairs]
    apart = [abs(f.stop_index - a.stop_index) for f, a in pairs if f.verdict == a.verdict == STOP]
    return {
        "repeats": len(pairs),
        "same": float(np.mean(same)) if pairs else None,
        "median": float(np.median(apart)) if apart else None,
    }


def gold_accuracy(answers: Iterable[Answer], gold: Mapping[int, int]) -> dict[str, dict[str, Any]]:
    """Each annotator on the episodes whose stop index is known (-1: safe): how many they have an opinion on, how many
    they rightly stopped or not, and the median of the steps to the known stop where they rightly stopped."""
    accuracy: dict[str, dict[str, Any]] = {}
    names, stops = stop_table([a for a in answers if a.episode in gold], episodes := sorted(gold))
    true_stop = np.array([gold[episode] for episode in episodes], np.int64)
    for name, stop in zip(names, stops):
        seen = stop > NO_OPINION
        both = (stop >= 0) & (true_stop >= 0)
        accuracy[name] = {
            "seen": int(seen.sum()),
            "right": int(((stop >= 0) == (true_stop >= 0))[seen].sum()),
            "median": float(np.median(np.abs(stop - true_stop)[both])) if both.any() else None,
        }
    return accuracy


class StopTable(NamedTuple):
    """First opinions: the annotators in the order of their names, and stop indices [annotators, episodes]."""

    names: list[str]
    stops: Array


def stop_table(answers: Iterable[Answer], episodes: Sequence[int] | None = None) -> StopTable:
    """What every annotator said on the first showing of each episode; a column for each episode asked for, or for each
    that somebody answered. -1: safe, NO_OPINION: unsure or not answered."""
    first = [a for a in answers if a.showing == 0]
    names = sorted({a.annotator for a in first})
    row = {name: i for i, name in enumerate(names)}
    columns = sorted({a.episode for a in first}) if episodes is None else episodes
    column = {episode: i for i, episode in enumerate(columns)}
    stops = np.full((len(names), len(column)), NO_OPINION, np.int64)
    for a in first:
        stops[row[a.annotator], column[a.episode]] = NO_OPINION if a.verdict == UNSURE else a.stop_index
    return StopTable(names, stops)


def agreement_table(summary: Mapping[str, Any], gold: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """What `agreement` found, and perhaps `gold_accuracy`, as text for a terminal."""
    between = _with_interval(summary["fleiss"], summary["fleiss_low"], summary["fleiss_high"])
    parts = [
        f"Fleiss' kappa, stopped or not: {between} on {summary['episodes']} episodes of two or more annotators"
    ]
    if summary["pairs"]:
        pairs = [
            (
                f"{p['a']}, {p['b']}",
                p["episodes"],
                _with_interval(p["cohen"], p["low"], p["high"]),
                p["both_stopped"],
                _number(p["median"], 1),
                _number(p["p90"], 1),
            )
            for p in summary["pairs"]
        ]
        heads = ("pair", "episodes", "Cohen's kappa", "both stopped", "median steps apart", "90% within")
        parts.append(_columns(heads, pairs))
    repeats = [
        (r["annotator"], r["repeats"], _percent(r["same"]), _number(r["median"], 1))
        for r in summary["repeats"]
        if r["repeats"]
    ]
    if repeats:
        parts.append(_columns(("shown again to", "episodes", "same verdict", "median steps apart"), repeats))
    if gold:
        gold_rows = [
            (
                name,
                g["seen"],
                _percent(g["right"] / g["seen"] if g["seen"] else None),
                _number(g["median"], 1),
            )
            for name, g in gold.items()
        ]
        parts.append(_columns(("known episodes", "seen", "right", "median steps off"), gold_rows))
    return "\n\n".join(parts)


def _columns(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Names to the left, numbers to the right."""
    cells = [list(heads), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(heads))]
    lines = [
        [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:]))] for line in cells
    ]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    return (
        _number(value)
        if low is None and high is None
        else f"{_number(value)} [{_number(low)}, {_number(high)}]"
    )


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _or_none(value: Array) -> float | None:
    return None if np.isnan(value) else float(value)


def _ratio(above: Any, below: Any) -> Array:
    """above / below; nan where below is 0."""
    below = np.asarray(below, np.float64)
    return np.divide(
        above, below, out=np.full(np.broadcast_shapes(np.shape(above), below.shape), np.nan), where=below != 0
    )

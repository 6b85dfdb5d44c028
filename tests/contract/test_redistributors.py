"""The exam that every redistributor sits. A new method is examined as soon as it is in REDISTRIBUTORS."""

from typing import get_type_hints

import jax
import numpy as np
import pytest
from conftest import ragged

from rci.data import store
from rci.data.batch import sequences
from rci.data.errors import RciError
from rci.data.types import Episodes, Labels
from rci.redistribution import REDISTRIBUTORS, redistribute
from rci.redistribution.base import Training


def quick(method, **options):
    """Those of the options, and of a short training, that the method has."""
    entry = REDISTRIBUTORS[method]
    known = {name for kind in (entry.config, entry.hyper, *entry.shared) for name in get_type_hints(kind)}
    return {name: value for name, value in {"epochs": 2, **options}.items() if name in known}


@pytest.fixture(params=sorted(REDISTRIBUTORS))
def method(request):
    return request.param


def test_one_cost_per_kept_step_and_exact_sums(method, point_episodes, point_labels):
    costs = redistribute(point_episodes, point_labels, method, **quick(method))
    assert [len(c) for c in costs.per_episode()] == point_labels.kept_lengths.tolist()
    assert costs.method == method
    if costs.return_equivalent:
        assert np.abs(costs.sums() - point_labels.cost).max() <= 1e-6


RULES = [
    {"start": "prior"},
    {"compensation": "uniform"},
    {"sign": "nonnegative"},
    {"distil": True, "distil_updates": 5},
    {"balance": True, "crop": True},
    {"members": 2, "pessimism": 1.0},
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_shared_option_keeps_the_sums(method, rule, point_episodes, point_labels):
    options = quick(method, **rule)
    entry = REDISTRIBUTORS[method]
    if not set(rule) & set(options):
        with pytest.raises(RciError, match="unknown setting"):
            redistribute(point_episodes, point_labels, method, **rule)
        return
    plain = entry.make(entry.config())
    idle = set() if plain.return_equivalent else {"start", "compensation", "sign"}
    idle |= {"start"} if plain.scores == "step" else set()
    if set(options) & idle:
        with pytest.raises(RciError, match="has no effect"):
            redistribute(point_episodes, point_labels, method, **options)
        return
    costs = redistribute(point_episodes, point_labels, method, **options)
    assert np.abs(costs.sums() - point_labels.cost).max() <= 1e-6 or not costs.return_equivalent
    if rule == {"sign": "nonnegative"}:
        assert costs.cost.min() >= 0
    if "members" in options:
        assert costs.spread.shape == costs.cost.shape


def test_same_seed_same_costs(method, point_episodes, point_labels):
    one, two = (redistribute(point_episodes, point_labels, method, seed=4, **quick(method)) for _ in range(2))
    assert one.hash == two.hash


@pytest.mark.parametrize("method", sorted(set(REDISTRIBUTORS) - {"oracle"}))
def test_what_lies_behind_the_stop_has_no_influence(method, point_episodes, point_labels):
    """Redistributors see the log up to the stop. Everything recorded after it is changed here."""
    arrays = {name: np.array(array) for name, array in point_episodes.arrays().items()}
    for i in np.flatnonzero(point_labels.stopped):
        stop, last = point_labels.stop_index[i], point_episodes.lengths[i]
        arrays["obs"][point_episodes.obs_offset[i] + stop + 1 : point_episodes.obs_offset[i] + last + 1] = (
            0.77
        )
        arrays["action"][
            point_episodes.step_offset[i] + stop + 1 : point_episodes.step_offset[i] + last
        ] = -0.5
    changed = Episodes(**arrays, task="point", sources=point_episodes.sources)
    labels = Labels.for_episodes(changed, point_labels.stop_index)
    one = redistribute(point_episodes, point_labels, method, **quick(method))
    two = redistribute(changed, labels, method, **quick(method))
    assert np.array_equal(one.cost, two.cost)


def subset(episodes, index):
    """The chosen episodes, in the order of `index`."""
    chosen = Episodes.from_list([episodes[i] for i in index], task=episodes.task)
    arrays = {**chosen.arrays(), "source": episodes.source[index]}
    return Episodes(**arrays, task=episodes.task, sources=episodes.sources)


def test_neither_padding_nor_order_has_an_influence(method, point_episodes, point_labels):
    """An episode's scores are the same beside longer ones, beside shorter ones, and in any place."""
    entry = REDISTRIBUTORS[method]
    redistributor = entry.make(entry.config())
    data = sequences(point_episodes, point_labels)
    state = redistributor.init(jax.random.key(0), data)
    lengths = point_labels.kept_lengths
    whole = redistributor.predict(state, point_episodes, lengths)
    short = np.flatnonzero(lengths < np.median(lengths))[::-1]
    part = redistributor.predict(state, subset(point_episodes, short), lengths[short])
    assert part.shape[1] < whole.shape[1]
    for row, i in zip(part, short):
        assert row[: lengths[i]] == pytest.approx(whole[i, : lengths[i]], abs=1e-5)


def test_saved_and_loaded(method, point_episodes, point_labels, tmp_path):
    costs = redistribute(point_episodes, point_labels, method, **quick(method))
    again = store.read(store.write(tmp_path / "costs", costs))
    assert again.hash == costs.hash
    assert np.array_equal(again.cost, costs.cost)


@pytest.mark.parametrize("method", sorted(REDISTRIBUTORS))
def test_cross_fitting_is_for_what_is_fitted(method, point_episodes, point_labels):
    """One of those that learn stands for all: what a fold is, the methods do not know."""
    if method == "rudder":
        assert redistribute(point_episodes, point_labels, method, **quick(method, folds=3)).return_equivalent
    elif "folds" not in quick(method, folds=3):
        with pytest.raises(RciError, match="unknown setting"):
            redistribute(point_episodes, point_labels, method, folds=3)


@pytest.mark.parametrize("method", sorted(set(REDISTRIBUTORS) - {"oracle"}))
def test_from_one_step_to_a_thousand(method):
    """The shortest and very long episodes side by side, in two channels and graded."""
    episodes = ragged([1, 1000, 1, 40, 3, 700, 1, 9], seed=6)
    stop = np.array([0, 999, -1, 20, -1, -1, 0, -1])
    grade = np.array([0.25, 1.0, 0.0, 0.5, 0.0, 0.0, 1.0, 0.0])
    cost = np.stack([grade, np.where(stop >= 0, 1.0, 0.0)], axis=-1)
    labels = Labels.for_episodes(episodes, stop, cost, ("graded", "plain"))
    costs = redistribute(episodes, labels, method, **quick(method, epochs=1))
    assert costs.cost.shape == (int(labels.kept_lengths.sum()), 2)
    if costs.return_equivalent:
        assert np.abs(costs.sums() - labels.cost).max() <= 1e-6


def test_what_is_not_return_equivalent_says_so(method, point_episodes, point_labels, tmp_path):
    """In the costs, in their manifest, and of the unit that their sum has."""
    costs = redistribute(point_episodes, point_labels, method, **quick(method, epochs=1))
    store.write(tmp_path / "costs", costs)
    meta = store.read_manifest(tmp_path / "costs")["meta"]
    assert meta["return_equivalent"] is costs.return_equivalent
    if costs.return_equivalent:
        assert costs.unit == "cost"
    if Training in REDISTRIBUTORS[method].shared:  # whether it won by the length of episodes alone
        assert 0 <= meta["info"]["matched_pairs_accuracy"] <= 1
        assert meta["info"]["matched_pairs"] > 0


def test_settings_of_training_are_for_methods_that_train(method):
    entry = REDISTRIBUTORS[method]
    trains = entry.make(entry.config()).update is not None
    assert (Training in entry.shared) == trains, "`shared` of its entry names what has an effect, and no more"


def test_foreign_labels_and_unknown_settings(method, point_episodes, point_labels):
    other = Labels(point_labels.stop_index, point_labels.cost, point_labels.lengths, "0" * 64)
    with pytest.raises(RciError, match="another dataset"):
        redistribute(point_episodes, other, method)
    with pytest.raises(RciError, match="episodes must be of type Episodes, got Labels"):
        redistribute(point_labels, point_episodes, method)
    with pytest.raises(RciError, match="unknown setting of .* 'distill'. Did you mean 'distil'"):
        redistribute(point_episodes, point_labels, method, distill=True)


def test_settings_that_would_have_no_effect_are_refused(point_episodes, point_labels):
    for method, option in (
        ("uniform", {"compensation": "last"}),
        ("sparse", {"epochs": 3}),
        ("oracle", {"folds": 2}),
    ):
        with pytest.raises(RciError, match="unknown setting"):
            redistribute(point_episodes, point_labels, method, **option)


def test_unknown_method(point_episodes, point_labels):
    with pytest.raises(RciError, match="unknown redistributor 'ruder'. Did you mean 'rudder'"):
        redistribute(point_episodes, point_labels, "ruder")


def test_oracle_needs_a_task_with_known_risk(point_episodes, point_labels):
    blank = Episodes(**{**point_episodes.arrays(), "task": ""})
    with pytest.raises(RciError, match=r"'oracle' needs a task whose exact risk is known \(point\)"):
        redistribute(blank, Labels.for_episodes(blank, point_labels.stop_index), "oracle")

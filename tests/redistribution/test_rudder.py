import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

from rci.data.batch import Sequences, sequences
from rci.data.errors import RciError
from rci.data.types import Labels
from rci.nets.sequence import Lstm, ReducedLstm
from rci.redistribution import redistribute, score
from rci.redistribution.base import Training
from rci.redistribution.distil import Distillation, distil
from rci.redistribution.episode_losses import auxiliary_loss, final_loss, prefix_loss
from rci.redistribution.fit import cross_folds, fit_folds, split
from rci.redistribution.methods import rudder
from rci.redistribution.quality import assess, calibration, rudder_quality

PREDICTION = jnp.array([[0.5, 1.0, 7.0], [0.0, 0.5, 0.25]])
MASK = jnp.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
COST = jnp.array([1.0, 0.0])


def test_final_loss_by_hand():
    assert final_loss(PREDICTION, MASK, COST) == pytest.approx((0.0 + 0.0625) / 2)


def test_prefix_loss_weighs_every_step_equally():
    # squared errors: 0.25, 0 | 0, 0.25, 0.0625; five valid steps, not a mean of episode means
    assert prefix_loss(PREDICTION, MASK, COST) == pytest.approx(0.5625 / 5)


def test_auxiliary_loss_by_hand():
    # at the end 0 and 0.0625; along the way, averaged within the episode: 0.25 / 2 and 0.3125 / 3
    along = (0.25 / 2 + 0.3125 / 3) / 2
    assert auxiliary_loss(PREDICTION, MASK, COST) == pytest.approx(0.0625 / 2 + 0.5 * along)


def test_reduced_cell_by_hand():
    """One unit, one feature, R = 2, W = 0.5, b_i = -1, b_c = 0.25: two steps worked out."""
    cell = ReducedLstm(jax.random.key(0), 1, 1)
    names = ("input_weight", "input_bias", "gate_weight", "gate_bias")
    values = ([[0.5]], [0.25], [[2.0]], [-1.0])
    cell = eqx.tree_at(lambda c: [getattr(c, n) for n in names], cell, [jnp.array(value) for value in values])
    first = np.tanh(0.5 * 1.0 + 0.25) / (1 + np.exp(1.0))
    second = first + np.tanh(0.5 * -2.0 + 0.25) / (1 + np.exp(1.0 - 2.0 * np.tanh(first)))
    found = cell(jnp.array([[[1.0], [-2.0]]]))[0, :, 0]
    assert np.asarray(found) == pytest.approx(np.tanh([first, second]), abs=1e-6)


def test_the_reduced_cell_only_adds():
    """What a step puts in is let in or kept out, never taken away: without gates the cell is a plain sum."""
    cell = ReducedLstm(jax.random.key(0), 3, 5)
    cell = eqx.tree_at(lambda c: (c.gate_weight, c.gate_bias), cell, (jnp.zeros((5, 5)), jnp.full(5, 50.0)))
    x = jax.random.normal(jax.random.key(1), (2, 4, 3))
    entry = np.tanh(np.asarray(x @ cell.input_weight))
    assert np.asarray(cell(x)) == pytest.approx(np.tanh(np.cumsum(entry, axis=1)), abs=1e-5)


def test_lstm_by_hand():
    """One unit, one feature, all weights 1, biases 0: two steps worked out."""
    lstm = Lstm(jax.random.key(0), 1, 1)
    ones = jax.tree.map(jnp.ones_like, (lstm.input_weight, lstm.hidden_weight))
    lstm = Lstm.__new__(Lstm)
    object.__setattr__(lstm, "input_weight", ones[0])
    object.__setattr__(lstm, "hidden_weight", ones[1])
    object.__setattr__(lstm, "bias", jnp.zeros(4))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    hidden, cell, expected = 0.0, 0.0, []
    for x in (1.0, -2.0):
        gate = x + hidden
        cell = sigmoid(gate) * cell + sigmoid(gate) * np.tanh(gate)
        hidden = sigmoid(gate) * np.tanh(cell)
        expected.append(hidden)
    out = lstm(jnp.array([[[1.0], [-2.0]]]))
    assert np.asarray(out)[0, :, 0] == pytest.approx(expected, abs=1e-6)


def test_lstm_is_causal():
    lstm = Lstm(jax.random.key(0), 3, 5)
    x = jax.random.normal(jax.random.key(1), (2, 6, 3))
    changed = x.at[:, 4:].set(9.0)
    assert np.array_equal(lstm(x)[:, :4], lstm(changed)[:, :4])
    assert not np.array_equal(lstm(x)[:, 4:], lstm(changed)[:, 4:])


def test_split_holds_out_both_kinds():
    cost, everyone = np.array([1.0] * 10 + [0.0] * 20), np.arange(30)
    train, part = split(cost, everyone, 0.2, np.random.default_rng(0))
    assert sorted([*train, *part]) == list(range(30))
    assert (cost[part] > 0).sum() == 2
    assert (cost[part] == 0).sum() == 4
    tiny, rest = split(np.array([1.0, 1.0, 0.0, 0.0]), np.arange(4), 0.99, np.random.default_rng(0))
    assert len(tiny) == len(rest) == 2


def test_what_is_held_out_has_no_part_in_the_fit():
    """Neither in the gradient nor in the choice of the epoch: its labels and contents may be anything."""
    episodes, stops, _ = separable(40)
    data = sequences(episodes, Labels.for_episodes(episodes, stops))
    method = rudder.make(rudder.Config(hidden=4))
    training = Training(epochs=3, patience=3)
    one = fit_folds(method, data, rudder.Hyper(), training, 0, lambda share: None)[0]
    obs = data.obs.copy()
    obs[one.held_out] = 5.0
    two = fit_folds(method, data._replace(obs=obs), rudder.Hyper(), training, 0, lambda share: None)[0]
    assert np.array_equal(one.held_out, two.held_out)
    for a, b in zip(jax.tree.leaves(one.state), jax.tree.leaves(two.state)):
        assert np.array_equal(a, b)


def test_quality_by_hand():
    end, cost = np.array([0.8, 0.4, 0.1]), np.array([1.0, 1.0, 0.0])
    assert rudder_quality(end, cost) == pytest.approx(1 - (0.04 + 0.36 + 0.01) / 2)
    error, table = calibration(np.array([0.12, 0.18, 0.95, 1.3]), np.array([0, 1, 1, 1.0]))
    assert table == [[pytest.approx(0.15), 0.5, 2], [pytest.approx(1.125), 1.0, 2]]
    assert error == pytest.approx((2 * 0.35 + 2 * 0.125) / 4)
    prefix = np.array([[0.1, 0.9], [0.6, 9.0]])
    figures = assess(prefix, np.array([2, 1]), np.array([1.0, 0.0]))
    assert figures["held_out_accuracy"] == 0.5


def separable(count=60):
    """Episodes whose cost is 1 exactly if the first feature of some observation is high; equal lengths."""
    episodes = ragged([8] * count, seed=4)
    rng = np.random.default_rng(5)
    obs = episodes.obs.reshape(count, 9, 3).copy()
    obs[:, :, 0] = 0.0
    when = rng.integers(1, 7, count)
    bad = np.arange(count) % 2 == 0
    obs[np.flatnonzero(bad), when[bad], 0] = 3.0
    arrays = {**episodes.arrays(), "obs": obs.reshape(-1, 3)}
    return type(episodes)(**arrays), np.where(bad, 7, -1), np.where(bad, when, -1)


def test_it_finds_the_step_that_matters():
    episodes, stops, when = separable()
    labels = Labels.for_episodes(episodes, stops)
    costs = redistribute(episodes, labels, "rudder", seed=0, epochs=80, patience=80, batch_size=16)
    found = [int(np.argmax(c)) == w for c, w in zip(costs.per_episode(), when) if w >= 0]
    assert np.mean(found) > 0.9
    assert costs.info["held_out_accuracy"] == 1.0
    assert costs.info["quality"] > 0.8
    assert costs.return_equivalent


def test_a_saved_model_scores_new_episodes():
    episodes, stops, _ = separable()
    labels = Labels.for_episodes(episodes, stops)
    costs = redistribute(episodes, labels, "rudder", seed=0, epochs=2)
    scores = score(costs, episodes)
    assert [len(s) for s in scores] == episodes.lengths.tolist()
    # Eq. (2) with the paper's rule: all but the last step cost is a difference of these very predictions
    first = np.diff(scores[0], prepend=0.0)
    assert costs.per_episode()[0][:-1] == pytest.approx(first[:-1])
    with pytest.raises(RciError, match="fitted with obs_size 3, these episodes have 5"):
        score(costs, ragged([3], obs_size=5))
    with pytest.raises(RciError, match="without a fitted model"):
        score(redistribute(episodes, labels, "uniform"), episodes)


@pytest.mark.parametrize(
    ("stop", "word"), [(-1, "none of the 4 episodes was stopped"), (0, "every one of the 4 episodes")]
)
def test_one_sided_labels_say_what_cannot_be_learned(stop, word):
    episodes = ragged([3, 2, 4, 1])
    labels = Labels.for_episodes(episodes, [stop] * 4)
    with pytest.raises(RciError, match=f"{word}.*no redistributor can learn"):
        redistribute(episodes, labels, "rudder")
    for method in ("sparse", "uniform"):
        assert redistribute(episodes, labels, method).sums() == pytest.approx(labels.cost)


def test_too_few_of_a_kind():
    episodes = ragged([3, 2, 4, 1])
    with pytest.raises(RciError, match="at least 3 stopped and 3 safe episodes .* got 1 stopped and 3 safe"):
        redistribute(episodes, Labels.for_episodes(episodes, [1, -1, -1, -1]), "rudder")


def test_a_diverging_fit_stops_with_a_suggestion():
    episodes, stops, _ = separable(12)
    labels = Labels.for_episodes(episodes, stops)
    with pytest.raises(RciError, match="diverged in epoch .*lower learning_rate"):
        redistribute(episodes, labels, "rudder", learning_rate=1e30, epochs=5)


def test_cross_fitting_scores_every_episode_out_of_sample():
    episodes, stops, _ = separable(30)
    labels = Labels.for_episodes(episodes, stops)
    folds = cross_folds(labels.cost, 3, seed=0)
    assert sorted(np.concatenate(folds)) == list(range(30))
    assert [int((labels.cost[fold] > 0).sum()) for fold in folds] == [5, 5, 5]
    costs = redistribute(episodes, labels, "rudder", seed=0, epochs=2, folds=3)
    assert costs.info["models"] == 3
    assert costs.info["held_out_episodes"] == 30
    assert {name.split(".")[2] for name in costs.model.arrays} == {"0", "1", "2"}
    # new episodes are scored by the mean of the three, so differently from any one of them
    first = np.diff(score(costs, episodes)[0], prepend=0.0)
    assert costs.per_episode()[0][:-1] != pytest.approx(first[:-1])
    with pytest.raises(RciError, match="16 folds need at least 16 stopped and 16 safe"):
        redistribute(episodes, labels, "rudder", folds=16)


def test_distilled_costs_are_a_function_of_the_pair():
    """Two steps with the same observation and action get the same cost, whatever came before them."""
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 2, (40, 5, 1)).astype(np.float32)
    data = Sequences(obs, np.zeros((40, 5, 1), np.float32), np.ones((40, 5), np.float32), np.zeros(40))
    noisy = obs[..., 0] + rng.normal(0, 0.3, (40, 5))
    clean = distil(noisy, data, Distillation(True), seed=0)
    for value in (0, 1):
        same = clean[obs[..., 0] == value]
        assert np.ptp(same) < 1e-6
        # the mean of about 100 draws; the fit itself moves by less than 0.05
        assert same[0] == pytest.approx(noisy[obs[..., 0] == value].mean(), abs=0.05)

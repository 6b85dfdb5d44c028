import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

from rci.data.batch import sequences
from rci.data.errors import RciError
from rci.data.types import Labels
from rci.nets.sequence import Gru
from rci.redistribution import redistribute, score
from rci.redistribution.methods import traces
from rci.redistribution.methods.traces import (
    cross_entropy,
    eventual_loss,
    log1mexp,
    starting_bias,
    step_log_survival,
    survived_loss,
    violation_chance,
)

HALF = float(np.log(2))  # -log of a chance of one half


def test_gru_by_hand():
    """One unit, one feature; weights 1, 2, 3 for reset, update, candidate, of the hidden state half of that."""
    gru = Gru(jax.random.key(0), 1, 1)
    object.__setattr__(gru, "input_weight", jnp.array([[1.0, 2.0, 3.0]]))
    object.__setattr__(gru, "hidden_weight", jnp.array([[0.5, 1.0, 1.5]]))
    object.__setattr__(gru, "bias", jnp.array([0.1, 0.2, 0.3]))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    hidden, expected = 0.0, []
    for x in (1.0, -0.5):
        reset, keep = sigmoid(x + 0.5 * hidden + 0.1), sigmoid(2 * x + hidden + 0.2)
        hidden = keep * hidden + (1 - keep) * np.tanh(3 * x + 0.3 + reset * 1.5 * hidden)
        expected.append(hidden)
    assert np.asarray(gru(jnp.array([[[1.0], [-0.5]]])))[0, :, 0] == pytest.approx(expected, abs=1e-6)


def test_gru_is_causal():
    gru = Gru(jax.random.key(0), 3, 5)
    x = jax.random.normal(jax.random.key(1), (2, 6, 3))
    changed = x.at[:, 4:].set(9.0)
    assert np.array_equal(gru(x)[:, :4], gru(changed)[:, :4])
    assert not np.array_equal(gru(x)[:, 4:], gru(changed)[:, 4:])


def test_log_survival_lies_between_minus_seven_and_zero():
    assert step_log_survival(jnp.array([-100.0, 0.0, 100.0])) == pytest.approx([0.0, -3.5, -7.0])


def test_starting_bias_by_hand():
    """Costs 1 and 0.75 in 4 steps: 7 sigmoid(x) = 7/16, so sigmoid(x) = 1/16 and x = -log 15."""
    mask = jnp.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    assert starting_bias(mask, jnp.array([1.0, 0.75])) == pytest.approx(-np.log(15))


def test_log1mexp_by_hand():
    assert log1mexp(jnp.array([-np.log(2), -np.log(4), -30.0])) == pytest.approx(
        [-np.log(2), np.log(0.75), 0.0], abs=1e-5
    )
    small = jnp.array([-1e-2, -1e-4])  # log(1 - exp(s)) is nearly log(-s)
    assert log1mexp(small) == pytest.approx(np.log(-np.expm1(np.asarray(small, np.float64))), rel=2e-3)


def test_log1mexp_has_finite_gradients_everywhere():
    s = jnp.array([0.0, -1e-7, -1e-3, -HALF, -1.0, -50.0, -7000.0])
    value, gradient = jax.vmap(jax.value_and_grad(log1mexp))(s)
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    assert value[0] == pytest.approx(np.log(1e-6), rel=1e-3)
    assert gradient[0] == pytest.approx(-1e6, rel=1e-2)  # not 0: a model that is sure can still be moved
    assert gradient[3] == pytest.approx(-1.0, rel=1e-4)  # -1/2 / (1/2)
    assert gradient[4] == pytest.approx(-1 / (np.e - 1), rel=1e-4)


def test_cross_entropy_by_hand():
    """A chance of 3/4 of being safe."""
    s, unsafe = jnp.full(3, np.log(0.75)), jnp.array([0.0, 1.0, 0.5])
    expected = [-np.log(0.75), np.log(4), 0.5 * np.log(4) - 0.5 * np.log(0.75)]
    assert cross_entropy(s, unsafe) == pytest.approx(expected, rel=1e-4)


# stopped after two steps; safe after three; stopped, graded, after one. The nines lie behind the ends.
STEP = -HALF * jnp.array([[1.0, 1.0, 9.0], [1.0, 0.0, 1.0], [1.0, 9.0, 9.0]])
MASK = jnp.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
COST = jnp.array([1.0, 0.0, 0.5])


def test_survived_loss_by_hand():
    """Sums of l, in halvings: 1, 2 | 1, 1, 2 | 1."""
    first = HALF - np.log(3 / 4)  # a safe prefix, then unsafe with a predicted chance of 3/4
    second = (1 + 1 + 2) / 3 * HALF
    third = HALF  # no prefix before the end; half of -log(1/2) for either answer
    assert survived_loss(STEP, MASK, COST) == pytest.approx((first + second + third) / 3, rel=1e-4)


def test_eventual_loss_by_hand():
    """The six valid prefixes alike; the first episode is unsafe from its first prefix on."""
    total = (HALF - np.log(3 / 4)) + 4 * HALF + HALF
    assert eventual_loss(STEP, MASK, COST) == pytest.approx(total / 6, rel=1e-4)


@pytest.mark.parametrize("loss", [survived_loss, eventual_loss])
def test_losses_are_finite_for_any_certainty(loss):
    for step in (jnp.zeros((3, 3)), jnp.full((3, 3), -7.0)):
        value, gradient = jax.value_and_grad(loss)(step, MASK, COST)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
        assert (np.asarray(gradient)[MASK == 0] == 0).all()


def test_violation_chance_by_hand():
    cost = np.array([[0.0, np.log(2), np.log(2)]])
    assert violation_chance(cost)[0] == pytest.approx([0.0, 0.5, 0.75])


def separable(count=100):
    """Equal lengths; every second episode is stopped at a step whose first feature is high, in the middle."""
    episodes = ragged([8] * count, seed=4)
    rng = np.random.default_rng(5)
    obs = episodes.obs.reshape(count, 9, 3).copy()
    obs[:, :, 0] = 0.0
    when = np.where(np.arange(count) % 2 == 0, rng.integers(1, 7, count), -1)
    bad = np.flatnonzero(when >= 0)
    obs[bad, when[bad], 0] = 3.0
    episodes = type(episodes)(**{**episodes.arrays(), "obs": obs.reshape(-1, 3)})
    return episodes, when


SETTINGS = {"hidden": 8, "epochs": 60, "patience": 60, "batch_size": 16, "learning_rate": 1e-2}


def test_it_finds_the_step_that_matters():
    episodes, when = separable()
    costs = redistribute(episodes, Labels.for_episodes(episodes, when), "traces", **SETTINGS)
    found = [int(np.argmax(c)) == w for c, w in zip(costs.per_episode(), when) if w >= 0]
    assert np.mean(found) > 0.9
    assert costs.cost.min() >= 0
    assert not costs.return_equivalent
    # what the sum stands for: stopped episodes are taken for unsafe, safe ones for safe
    chance = 1 - np.exp(-costs.sums())
    assert chance[when >= 0].mean() > 0.8
    assert chance[when < 0].mean() < 0.2


def test_what_is_asked_of_a_prefix_decides_where_the_cost_goes():
    """The stop comes after the cause: `survived` has to wait for it, `eventual` knows it from the cause on."""
    episodes, when = separable()
    labels = Labels.for_episodes(episodes, np.where(when >= 0, 7, -1))
    late, early = (
        redistribute(episodes, labels, "traces", prefixes=name, **SETTINGS)
        for name in ("survived", "eventual")
    )
    after_cause = [
        np.mean([violation_chance(c[None])[0, w] for c, w in zip(costs.per_episode(), when) if w >= 0])
        for costs in (late, early)
    ]
    assert after_cause[0] < 0.3
    assert after_cause[1] > 0.7


def test_conserved_costs_sum_to_the_episodic_cost():
    episodes, when = separable(20)
    labels = Labels.for_episodes(episodes, when, np.linspace(0.1, 1.0, 20))
    costs = redistribute(episodes, labels, "traces", conserve=True, epochs=1, sign="nonnegative")
    assert costs.return_equivalent
    assert np.abs(costs.sums() - labels.cost).max() <= 1e-6


@pytest.mark.parametrize(("conserve", "unit"), [(False, "log-survival"), (True, "cost")])
def test_what_it_promises(conserve, unit):
    method = traces.make(traces.Config(conserve=conserve))
    assert (method.scores, method.return_equivalent, method.unit) == ("step", conserve, unit)
    assert method.forecast is violation_chance


def test_it_starts_at_the_cost_per_step_that_was_logged():
    episodes, when = separable()
    data = sequences(episodes, Labels.for_episodes(episodes, when))
    state = jax.jit(traces.make(traces.Config()).init)(jax.random.key(0), data)
    cost = -np.asarray(state.network(data.obs, data.action))[data.mask > 0]
    assert cost.mean() == pytest.approx(data.cost.sum() / data.mask.sum(), rel=0.2)


def test_long_episodes_and_a_saved_model():
    episodes = ragged([1000, 1000, 30, 20, 5, 1000])
    labels = Labels.for_episodes(episodes, [999, 0, -1, -1, 4, -1])
    costs = redistribute(episodes, labels, "traces", hidden=4, epochs=1)
    assert np.isfinite(costs.cost).all()
    assert score(costs, episodes)[0] == pytest.approx(costs.per_episode()[0], abs=1e-6)


def test_bad_settings():
    with pytest.raises(RciError, match="hidden must be at least 1, got 0"):
        traces.Config(hidden=0)
    episodes, when = separable(12)
    labels = Labels.for_episodes(episodes, when)
    with pytest.raises(RciError, match="traces.prefixes must be one of survived, eventual, not 'all'"):
        redistribute(episodes, labels, "traces", prefixes="all")

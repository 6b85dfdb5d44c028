import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

from rci.data.batch import sequences
from rci.data.errors import RciError
from rci.data.types import Labels
from rci.nets.attention import (
    AttentionBlock,
    LayerNorm,
    Transformer,
    alibi_slopes,
    local_attention,
    window_bias,
)
from rci.redistribution import redistribute, score
from rci.redistribution.methods import transformer


def test_slopes_by_hand():
    assert alibi_slopes(2) == pytest.approx([1 / 16, 1 / 256])
    assert alibi_slopes(4) == pytest.approx([1 / 4, 1 / 16, 1 / 64, 1 / 256])


def test_window_bias_by_hand():
    """One head of slope 1/256; blocks of two steps; a window of two: itself and the step before."""
    no, near = -np.inf, -1 / 256
    assert np.array_equal(window_bias(2, 2, 1), [[[no, near, 0.0, no], [no, no, near, 0.0]]])
    assert np.array_equal(window_bias(2, 1, 1), [[[no, no, 0.0, no], [no, no, no, 0.0]]])


def test_attention_by_hand():
    """One head of width 1: at the second step, two scores of 2 and 6, less 1/256 for the older one."""
    query, key, value = (jnp.array(x).reshape(1, 3, 1, 1) for x in ([1.0, 2, 0], [1.0, 3, 0], [10.0, 20, 40]))
    share = 1 / (1 + np.exp(2 - 1 / 256 - 6))
    by_distance = np.exp(-np.array([1, 0]) / 256)
    expected = [10.0, 10 * (1 - share) + 20 * share, by_distance @ [20, 40] / by_distance.sum()]
    assert local_attention(query, key, value, 2).ravel() == pytest.approx(expected, rel=1e-5)


def naive_attention(query, key, value, window):
    """The whole matrix at once, in float64."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    steps, heads, width = query.shape[1:]
    distance = np.arange(steps)[:, None] - np.arange(steps)[None]
    logit = np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(width)
    logit -= (2.0 ** (-8 * np.arange(1, heads + 1) / heads))[:, None, None] * distance
    logit = np.where((distance >= 0) & (distance < window), logit, -np.inf)
    weight = np.exp(logit - logit.max(axis=-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", weight / weight.sum(axis=-1, keepdims=True), value)


@pytest.mark.parametrize(
    ("steps", "window"), [(1, 1), (1, 7), (5, 1), (5, 7), (7, 7), (8, 7), (14, 7), (23, 7), (1000, 50)]
)
def test_blocks_give_what_the_whole_matrix_gives(steps, window):
    keys = jax.random.split(jax.random.key(steps), 3)
    query, key, value = (2 * jax.random.normal(k, (2, steps, 2, 3)) for k in keys)
    found = jax.jit(local_attention, static_argnums=3)(query, key, value, window)
    assert found.shape == (2, steps, 2, 3)
    assert np.asarray(found) == pytest.approx(naive_attention(query, key, value, window), abs=1e-5)


def test_attention_has_finite_gradients():
    x = jax.random.normal(jax.random.key(0), (1, 5, 1, 2))
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(local_attention(x, x, x, 2) ** 2)))(x)
    assert np.isfinite(gradient).all()


def test_layer_norm_by_hand():
    """Mean 2, variance 1."""
    x, width = jnp.array([[1.0, 3.0]]), np.sqrt(1 + 1e-5)
    norm = LayerNorm(2)
    assert norm(x)[0] == pytest.approx([-1 / width, 1 / width])
    object.__setattr__(norm, "gain", jnp.array([2.0, 3.0]))
    object.__setattr__(norm, "bias", jnp.array([0.5, -0.5]))
    assert norm(x)[0] == pytest.approx([-2 / width + 0.5, 3 / width - 0.5])


def test_a_block_adds_attention_and_then_a_dense_network():
    block = AttentionBlock(jax.random.key(0), 4, 2, 3)
    x = jax.random.normal(jax.random.key(1), (2, 5, 4))
    queries, keys, values = np.split(block.attention_norm(x) @ block.input_weight, 3, axis=-1)
    heads = [part.reshape(2, 5, 2, 2) for part in (queries, keys, values)]
    middle = x + naive_attention(*heads, 3).reshape(2, 5, 4) @ block.output_weight
    expected = middle + block.dense(block.dense_norm(jnp.asarray(middle, jnp.float32)))
    assert np.asarray(block(x)) == pytest.approx(np.asarray(expected), abs=1e-5)


SIZES = {"features": 3, "hidden": 8, "heads": 2, "layers": 2, "window": 4}
REACH = 2 * (4 - 1) + 1  # inputs that the output of a step depends on: layers * (window - 1) + 1


def compiled():
    return eqx.filter_jit(Transformer(jax.random.key(0), **SIZES))


def test_it_is_causal():
    network = compiled()
    x = jax.random.normal(jax.random.key(1), (2, 11, 3))
    changed = x.at[:, 6:].set(9.0)
    assert np.array_equal(network(x)[:, :6], network(changed)[:, :6])
    assert not np.isclose(network(x)[:, 6:], network(changed)[:, 6:]).all(axis=-1).any()


def test_the_past_beyond_the_windows_is_forgotten():
    network = compiled()
    x = jax.random.normal(jax.random.key(1), (1, 20, 3))
    one, two = network(x)[0], network(x.at[:, 4].set(9.0))[0]
    moved = ~np.isclose(one, two, atol=1e-6).all(axis=-1)
    assert np.flatnonzero(moved).tolist() == list(range(4, 4 + REACH))


@pytest.mark.parametrize("shift", [1, 3, 4, 50])
def test_it_knows_no_absolute_time(shift):
    """The same inputs later in an episode give the same answers, whatever came before."""
    network = compiled()
    x = jax.random.normal(jax.random.key(1), (1, 15, 3))
    before = 5 * jax.random.normal(jax.random.key(2), (1, shift, 3))
    late = network(jnp.concatenate([before, x], axis=1))[0, shift:]
    assert np.asarray(late[REACH - 1 :]) == pytest.approx(np.asarray(network(x)[0, REACH - 1 :]), abs=1e-5)
    assert not np.isclose(late[0], network(x)[0, 0]).all()  # it does look back


def test_an_episode_in_which_nothing_changes_has_one_answer():
    """Not even the beginning of an episode is told apart from its middle, if it looks the same."""
    network = compiled()
    out = np.asarray(network(jnp.ones((1, 30, 3)))[0])
    assert np.ptp(out, axis=0).max() < 1e-5


def separable(lengths, seed=5):
    """Every second episode has one observation with a high first feature, and is stopped at its end."""
    episodes = ragged(lengths, seed=4)
    rng = np.random.default_rng(seed)
    arrays = {name: np.array(array) for name, array in episodes.arrays().items()}
    arrays["obs"][:, 0] = 0.0
    when = np.array([rng.integers(1, length - 1) if i % 2 == 0 else -1 for i, length in enumerate(lengths)])
    bad = np.flatnonzero(when >= 0)
    arrays["obs"][episodes.obs_offset[bad] + when[bad], 0] = 3.0
    stops = np.where(when >= 0, np.array(lengths) - 1, -1)
    episodes = type(episodes)(**arrays)
    return episodes, Labels.for_episodes(episodes, stops), when


def test_it_finds_the_step_that_matters():
    episodes, labels, when = separable([8] * 100)
    network = {"hidden": 16, "layers": 1, "window": 8}
    training = {"learning_rate": 3e-3, "epochs": 30, "batch_size": 16}
    # half of the episodes are stopped: with an empty prefix of 0, the first step would get that half
    costs = redistribute(episodes, labels, "transformer", start="prior", **network, **training)
    found = [int(np.argmax(c)) == w for c, w in zip(costs.per_episode(), when) if w >= 0]
    assert np.mean(found) > 0.8  # by chance: one in six
    assert costs.return_equivalent


def test_long_episodes_and_a_saved_model():
    """1,000 steps beside short ones; what was saved predicts what was differenced."""
    episodes, labels, _ = separable([1000, 1000, 60, 50, 20, 7, 1000, 4])
    costs = redistribute(episodes, labels, "transformer", hidden=8, layers=1, epochs=1, loss="final")
    assert np.abs(costs.sums() - labels.cost).max() <= 1e-6
    first = np.diff(score(costs, episodes)[0], prepend=0.0)
    assert costs.per_episode()[0][:-1] == pytest.approx(first[:-1], abs=1e-6)


@pytest.mark.parametrize("loss", ["final", "prefix", "auxiliary"])
def test_every_loss_has_a_finite_gradient_that_leaves_the_statistics_alone(loss):
    episodes, labels, _ = separable([6, 5, 4, 3])
    data = sequences(episodes, labels)
    method = transformer.make(transformer.Config(hidden=4, window=3, loss=loss))
    state = jax.jit(method.init)(jax.random.key(0), data)
    after, info = jax.jit(method.update)(jax.random.key(1), state, data, transformer.Hyper())
    assert np.isfinite(info.loss)
    assert np.array_equal(after.network.normalise.mean, state.network.normalise.mean)
    assert all(
        np.isfinite(b).all() and not np.array_equal(a, b)
        for a, b in zip(
            jax.tree.leaves(state.network.transformer), jax.tree.leaves(after.network.transformer)
        )
    )


@pytest.mark.parametrize("name", ["hidden", "heads", "layers", "window"])
def test_settings_must_be_positive(name):
    with pytest.raises(RciError, match=f"{name} must be at least 1, got 0"):
        transformer.Config(**{name: 0})


def test_heads_share_the_features_evenly():
    with pytest.raises(RciError, match="multiple of heads.*hidden = 32 and heads = 5.*nearest.*hidden = 30"):
        transformer.Config(heads=5)
    with pytest.raises(RciError, match="nearest.*hidden = 4"):
        transformer.Config(hidden=1, heads=4)

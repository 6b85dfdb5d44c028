import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

import rci
from rci.data.errors import RciError
from rci.data.types import Labels, StepCosts, Transitions
from rci.learning import learn
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.dataset import measure_scaling, to_device
from rci.learning.methods import cdt
from rci.nets.dense import Normaliser

SMALL = cdt.Config(context=3, hidden=8, heads=2, layers=2, batch_size=16)


def test_the_first_target_by_hand():
    """Five episodes with their return and two costs; the last one, which earned most, is over the budget."""
    total = jnp.array([[1.0, 0.0, 0.2], [3.0, 0.1, 0.6], [2.0, 0.0, 0.0], [4.0, 0.3, 1.0], [9.0, 1.0, 1.0]])
    within = jnp.array([1.0, 1.0, 1.0, 1.0, 0.0])

    def target(limits, quantile):
        return np.asarray(cdt.first_target(total, within, jnp.array(limits), quantile))

    assert target([0.3, 0.5], 1.0) == pytest.approx([4.0, 0.3, 0.5])
    assert target([0.3, 0.5], 0.7) == pytest.approx([3.0, 0.3, 0.5])  # the third of four, not between two
    assert target([0.3, math.inf], 0.7) == pytest.approx([3.0, 0.3, 0.8])  # mean of 0.6 and 1
    assert target([math.inf, math.inf], 0.0) == pytest.approx([1.0, 0.1, 0.45])


def test_windows_stay_in_their_episode_and_weigh_steps_alike():
    step = jnp.array([0, 1, 0, 1, 2, 3])  # episodes of 2 and 4 steps
    row, valid = cdt.window_rows(jnp.arange(6), step, 3)
    assert row.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 5], [5, 5, 5]]
    assert valid.tolist() == [
        [True, True, False], [True, False, False], [True, True, True], [True, True, True], [True, True, False],
        [True, False, False],
    ]  # fmt: skip
    weight = cdt.step_weight(step[row], valid, 3)
    assert np.asarray(weight[2]) == pytest.approx([1.0, 1 / 2, 1 / 3])
    # over all windows every step counts once
    assert np.bincount(np.ravel(row), np.ravel(weight)) == pytest.approx(np.ones(6))


def test_what_is_left_by_hand():
    scale = Normaliser(jnp.array([1.0, 0.1]), jnp.array([2.0, 0.4]))
    left = cdt.spend(jnp.array([[5.0, 0.5]]), jnp.array([[0.5, 0.5]]), scale)
    assert np.asarray(left) == pytest.approx(np.array([[3.0, 0.2]]))  # 5 - (1 + 1), 0.5 - (0.1 + 0.2)


def test_tokens_by_hand():
    scale = Normaliser(jnp.array([1.0, 0.1]), jnp.array([2.0, 0.4]))
    token = cdt.tokens(jnp.array([[5.0, 0.5]]), jnp.array([[7.0]]), jnp.array([[-1.0]]), scale)
    assert np.asarray(token) == pytest.approx(np.array([[2.0, 1.0, 7.0, -1.0]]))


def test_a_full_memory_forgets_the_oldest():
    token = jnp.arange(6.0).reshape(2, 3, 1)  # 0 1 2 and 3 4 5
    token, place = cdt.remember(token, jnp.array([1, 3]), jnp.array([[8.0], [9.0]]))
    assert token[..., 0].tolist() == [[0.0, 8.0, 2.0], [4.0, 5.0, 9.0]]
    assert place.tolist() == [1, 2]


def logged(cost):
    """Two episodes of 2 and 5 steps; the second is stopped at its end and costs `cost` at each step."""
    episodes = ragged([2, 5])
    labels = Labels.for_episodes(episodes, np.array([-1, 4]))
    cost = np.repeat([0.0, cost], [2, 5])
    costs = StepCosts(cost, np.array([2, 5]), labels.cost, False, "by hand", labels.hash)
    transitions = Transitions.build(episodes, labels, costs)
    scaling = measure_scaling(transitions)
    return to_device(transitions, scaling), FrozenBehaviour(None, scaling)


LEARNER = cdt.make(SMALL)
SAMPLE, INIT = jax.jit(LEARNER.sample), jax.jit(LEARNER.init)


def begun(cost=0.3, threshold=math.inf):
    """The state before the first update, and the first batch."""
    data, frozen = logged(cost)
    batch = SAMPLE(jax.random.key(1), data, frozen)
    return INIT(jax.random.key(0), batch, cdt.Hyper(threshold)), batch, frozen


def test_fractions_and_negative_costs_are_what_they_are():
    """Five steps of 0.3: the cost-to-go is 1.5, and neither it nor the cost of a step is rounded."""
    for cost in (0.3, -0.3):
        state, batch, _ = begun(cost)
        assert {round(float(c), 4) for c in batch.signal[..., 1].ravel()} == {0.0, cost}
        assert sorted({round(float(c) / cost, 4) for c in batch.to_go[..., 1].ravel()}) == [0, 1, 2, 3, 4, 5]
        mean, deviation = 5 * cost / 7, abs(cost) * math.sqrt(10) / 7
        assert np.asarray(state.signal_scale.mean)[1] == pytest.approx(mean)
        assert np.asarray(state.signal_scale.scale)[1] == pytest.approx(deviation)
    state, _, _ = begun(threshold=0.3)
    assert float(state.target[1]) == pytest.approx(0.3)


def test_padding_has_no_influence():
    state, batch, _ = begun()
    padded = batch.weight == 0
    assert 0 < int(padded.sum()) < padded.size

    def spoil(array):
        return jnp.where(jnp.broadcast_to(padded[..., None], array.shape), 1e3, array)

    names = ("obs", "before", "to_go", "action", "signal")
    spoilt = batch._replace(**{name: spoil(getattr(batch, name)) for name in names})
    update = jax.jit(LEARNER.update)
    one, two = (update(jax.random.key(2), state, b, cdt.Hyper()) for b in (batch, spoilt))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two)):
        assert np.array_equal(a, b)


def test_step_by_step_is_the_same_as_the_whole_window():
    """Seven steps with a memory of three, against the network over the same tokens, told anew at every step."""
    state, _, frozen = begun()
    actor = LEARNER.policy(state, frozen, cdt.Hyper())
    obs = jax.random.normal(jax.random.key(3), (2, 7, 3))
    memory = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), LEARNER.memory(actor))
    act = jax.jit(LEARNER.act)
    to_go, before = [memory.to_go], [jnp.zeros((2, 2))]

    @jax.jit
    def whole(to_go, before, obs):
        actions, features = state.network(cdt.tokens(to_go, obs, before, state.to_go_scale))
        estimate = state.network.signal_head(features[:, -1], actions[:, -1])
        return actions[:, -1], cdt.spend(to_go[:, -1], estimate, state.signal_scale)

    assert np.asarray(to_go[0][0]) == pytest.approx(np.asarray(state.target))
    for t in range(7):
        action, memory = act(jax.random.key(4), actor, memory, obs[:, t])
        first = max(0, t - 2)
        told = (np.stack(part[first:], axis=1) for part in (to_go, before))
        expected, left = whole(*told, obs[:, first : t + 1])
        assert np.asarray(action) == pytest.approx(np.asarray(expected), abs=1e-5)
        assert np.asarray(memory.to_go) == pytest.approx(np.asarray(left), abs=1e-5)
        to_go.append(memory.to_go)
        before.append(action)
    assert memory.taken.tolist() == [7, 7]


def test_heads_must_divide_the_width():
    with pytest.raises(RciError, match="hidden must be a multiple of heads, got 9 and 2"):
        cdt.Config(hidden=9, heads=2)


def test_a_policy_with_a_memory_is_evaluated(point_episodes, point_labels, tmp_path):
    costs = rci.redistribute(point_episodes, point_labels, method="uniform")
    small = {"context": 3, "hidden": 8, "batch_size": 8, "updates": 3}
    policy = learn(point_episodes, point_labels, costs, "cdt", 0.1, **small)
    policy.save(tmp_path / "policy")
    one, two = (rci.evaluate(p, "point", episodes=5, seed=0) for p in (policy, rci.load(tmp_path / "policy")))
    assert np.array_equal(one.returns, two.returns)
    # it remembers: the same observation again is answered otherwise
    memory, obs = policy.begin(1), point_episodes.obs[:1]
    first, memory = policy.step(0, memory, obs)
    second, _ = policy.step(0, memory, obs)
    assert np.array_equal(first[0], policy.act(obs[0]))
    assert not np.array_equal(first, second)

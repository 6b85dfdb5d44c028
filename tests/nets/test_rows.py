"""Networks of rows: what they see, what they do not see, and their scaling."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.learning.dataset import row_normaliser
from rci.nets.dense import Committee
from rci.nets.rows import RowCommittee, RowMlp


def by_hand():
    """One feature and one unit: relu(2 own + 3 other + action + 1) of each row, then 10 times the largest, minus 5."""
    net = RowMlp(jax.random.key(0), 3, 3, 1, (1, 1))
    parts = jnp.array([[2.0], [3.0]]), jnp.array([[1.0]]), jnp.array([1.0]), jnp.eye(1), jnp.zeros(1)
    net = eqx.tree_at(lambda n: (n.obs_weight, n.action_weight, n.bias, n.row_weight, n.row_bias), net, parts)
    return eqx.tree_at(
        lambda n: (n.rest.weights, n.rest.biases), net, ((jnp.array([[10.0]]),), (jnp.array([-5.0]),))
    )


def test_the_strongest_row_counts():
    net = by_hand()
    obs, action = jnp.array([[1.0, -4.0, 2.0]]), jnp.array([[0.5]])
    # rows: 2 + 3 + 0.5 + 1 = 6.5; 2 - 12 + 1.5 < 0; 2 + 6 + 1.5 = 9.5
    assert net(obs, action).tolist() == [[90.0]]


def test_rows_of_zeros_are_not_seen():
    net = by_hand()
    # The padding would say relu(-2 + 0 + 0 + 1) = 0, and the first row relu(-2 - 3 + 1) = 0; with an own state of 0.5
    # the first row says 2 * 0.5 + 3 * 0.5 + 1 = 3.5, a row of zeros would say 2.
    assert net(jnp.array([[0.5, 0.0, 0.0]]), jnp.zeros((1, 1))).tolist() == [[30.0]]
    assert net(jnp.array([[-0.5, 0.0, 0.0]]), jnp.full((1, 1), 3.0)).tolist() == [
        [10.0]
    ]  # 3 if padding was seen


@pytest.mark.parametrize("actions", [0, 2])
def test_the_order_behind_the_first_row_does_not_matter(actions):
    net = RowMlp(jax.random.key(1), 4, 12, actions, (8, 8, 3))
    table = jax.random.normal(jax.random.key(2), (5, 4, 3))
    action = jax.random.normal(jax.random.key(3), (5, actions)) if actions else None
    shuffled = table[:, jnp.array([0, 3, 1, 2])]
    swapped = table[:, jnp.array([1, 0, 2, 3])]
    answer, same, other = (net(each.reshape(5, 12), action) for each in (table, shuffled, swapped))
    np.testing.assert_allclose(answer, same, rtol=1e-6)
    assert not np.allclose(answer, other, atol=1e-3)


def test_many_actions_at_one_observation():
    nets = RowCommittee(jax.random.key(0), 3, 6, 2, (8, 8, 2), members=2)
    obs, action = jnp.ones((4, 6)), jax.random.normal(jax.random.key(1), (4, 5, 2))
    together = nets(obs, action)
    assert len(nets) == 2
    assert [answer.shape for answer in together] == [(4, 5, 2)] * 2
    for i in range(5):
        for member, answer in enumerate(nets(obs, action[:, i])):
            np.testing.assert_allclose(answer, together[member][:, i], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(nets.member(member)(obs, action[:, i]), answer)


def test_a_member_of_a_dense_committee_by_itself():
    nets = Committee(jax.random.key(0), 6, 2, (8, 8, 2), members=3)
    obs, action = jnp.ones((4, 6)), jax.random.normal(jax.random.key(1), (4, 2))
    for member, answer in enumerate(nets(obs, action)):
        np.testing.assert_allclose(nets.member(member)(obs, action), answer, rtol=1e-5, atol=1e-6)


def test_rows_are_scaled_alike_and_padding_stays_zero():
    table = np.array([[[3.0, 1.0], [4.0, 0.0], [0.0, 0.0]], [[3.0, 1.0], [0.0, 2.0], [0.0, 0.0]]])
    scale = row_normaliser(table.reshape(2, 6).astype(np.float32), 3)
    assert scale.mean.tolist() == [0.0] * 6
    # Two rows are seen, (4, 0) and (0, 2): roots of 8 and of 2.
    np.testing.assert_allclose(scale.scale, [3.0, 1.0, 8**0.5, 2**0.5, 8**0.5, 2**0.5], rtol=1e-6)
    assert scale(jnp.asarray(table.reshape(2, 6), jnp.float32))[:, 4:].tolist() == [[0.0, 0.0]] * 2


def test_tables_with_no_second_row_at_all():
    scale = row_normaliser(np.array([[2.0, 0.0], [2.0, 0.0]], np.float32), 2)
    assert scale.scale.tolist() == [2.0, 1.0]

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

from rci.learning.methods import bc
from rci.nets.dense import Mlp


def one_layer(*biases):
    """A network that answers the same whatever it sees."""
    network = jax.tree.map(jnp.zeros_like, Mlp(jax.random.key(0), (3, len(biases))))
    object.__setattr__(network, "biases", (jnp.array(biases),))
    return network


def test_answers_by_hand():
    answer = bc.answer(one_layer(0.0, 1.0), jnp.ones((2, 3)))
    assert np.asarray(answer) == pytest.approx(np.tile([0.0, np.tanh(1.0)], (2, 1)))


def test_loss_by_hand():
    """A network of zeros: the loss is the mean over rows of the squared length of the action."""
    learner = bc.make(bc.Config(hidden=4, batch_size=2))
    batch = bc.Batch(jnp.ones((2, 3)), jnp.array([[0.5, -1.0], [0.0, 0.5]]))
    state = learner.init(jax.random.key(0), batch, bc.Hyper())
    blank = state._replace(network=jax.tree.map(jnp.zeros_like, state.network))
    after, info = learner.update(jax.random.key(1), blank, batch, bc.Hyper(learning_rate=0.1))
    assert info.loss == pytest.approx((0.25 + 1.0 + 0.25) / 2)
    # only the last bias has a gradient here: mean of -2 * action, and a first step of Adam is of size 1
    assert np.asarray(after.network.biases[-1]) == pytest.approx([0.1, -0.1], abs=1e-4)


def test_rows_pair_an_observation_with_its_own_action():
    from rci.data.types import Labels, Transitions
    from rci.learning.dataset import measure_scaling, to_device
    from rci.redistribution import redistribute

    episodes = ragged([2, 3])
    labels = Labels.for_episodes(episodes, np.array([-1, 2]))
    transitions = Transitions.build(episodes, labels, redistribute(episodes, labels, "sparse"))
    scaling = measure_scaling(transitions)
    batch = bc.rows(to_device(transitions, scaling), jnp.array([1, 2]))
    assert np.asarray(batch.obs) == pytest.approx(
        np.asarray(scaling.obs(jnp.asarray(episodes.obs[[1, 3]]))), abs=1e-5
    )
    assert np.asarray(scaling.decode_action(batch.action)) == pytest.approx(episodes.action[[1, 2]], abs=1e-5)

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

from rci.data.errors import RciError
from rci.data.types import Labels, StepCosts, Transitions
from rci.learning import learn
from rci.learning.dataset import measure_scaling, to_device
from rci.learning.methods import bc, bc_safe
from rci.redistribution import redistribute


def test_kept_rows_by_hand():
    kept = jnp.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    assert bc_safe.kept_row(jnp.array([0, 1, 2, 0]), kept).tolist() == [1, 2, 4, 1]


def test_only_episodes_within_the_budget_are_drawn():
    episodes = ragged([2, 3, 1, 4])
    labels = Labels.for_episodes(episodes, np.array([1, -1, 0, 3]))
    transitions = Transitions.build(episodes, labels, redistribute(episodes, labels, "sparse"))
    scaling = measure_scaling(transitions)
    data = to_device(transitions, scaling, np.array([False, True, False, True]))
    batch = bc_safe.make(bc.Config(hidden=4, batch_size=200)).sample(jax.random.key(0), data, None)
    drawn = {tuple(row) for row in np.asarray(batch.action).round(5)}
    safe = np.asarray(data.action)[[2, 3, 4, 6, 7, 8, 9]].round(5)
    assert drawn == {tuple(row) for row in safe}  # a row is missed with chance (6/7)^200 < 1e-13


@pytest.mark.parametrize("method", ["bc-safe", "cdt"])
def test_there_must_be_somebody_to_imitate(method):
    """Costs that do not sum to the label: even the safe episode is over the budget."""
    episodes = ragged([2, 2])
    labels = Labels.for_episodes(episodes, np.array([1, -1]))
    costs = StepCosts(np.full(4, 0.3), np.array([2, 2]), labels.cost, False, "by hand", labels.hash)
    with pytest.raises(RciError, match="no episode kept the budget 0.5 under these step costs"):
        learn(episodes, labels, costs, method, 0.5)
    settings = {"hidden": 4, "batch_size": 2, "updates": 1}
    assert learn(episodes, labels, costs, method, math.inf, **settings).info["threshold"] == "inf"

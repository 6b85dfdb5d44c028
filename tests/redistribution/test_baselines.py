from conftest import ragged

from rci.data.types import Labels
from rci.redistribution import REDISTRIBUTORS, redistribute
from rci.redistribution.methods.baselines import make_sparse, make_uniform


def test_sparse_and_uniform_costs_by_hand():
    """Paper: Eq. (1), graded as well: the cost at the stop, or the same cost in equal parts."""
    assert REDISTRIBUTORS["sparse"].make is make_sparse
    assert REDISTRIBUTORS["uniform"].make is make_uniform
    episodes = ragged([4, 2, 3])
    labels = Labels.for_episodes(episodes, [1, -1, 2], severity=[1.0, 1.0, 0.75])
    assert redistribute(episodes, labels, "sparse").cost.tolist() == [0, 1, 0, 0, 0, 0, 0.75]
    assert redistribute(episodes, labels, "uniform").cost.tolist() == [0.5, 0.5, 0, 0, 0.25, 0.25, 0.25]

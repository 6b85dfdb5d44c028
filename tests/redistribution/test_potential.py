"""A potential of states: what a step costs is what it adds to the danger of the state, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import ragged

from rci.labeling import label
from rci.redistribution import redistribute, score
from rci.redistribution.conserve import difference


@pytest.fixture(scope="module")
def fitted():
    episodes = ragged([4, 6, 5, 3, 6, 4, 5, 6])
    labels = label(episodes, {0: 3, 2: 1, 3: 2, 6: 4})
    return episodes, labels, redistribute(episodes, labels, "potential", epochs=3, hidden=8)


def test_a_step_costs_what_it_adds_to_the_potential(fitted):
    episodes, labels, costs = fitted
    for phi, cost, episodic, kept in zip(
        score(costs, episodes), costs.per_episode(), labels.cost, labels.kept_lengths
    ):
        phi = phi[:kept]
        expected = difference(phi[None], np.ones((1, kept)))[0]  # the empty prefix predicts nothing
        expected[-1] += episodic - phi[-1]
        assert cost == pytest.approx(expected, abs=1e-6)


def test_the_potential_is_of_the_state_that_a_step_led_to(fitted):
    episodes, _, costs = fitted
    before = score(costs, episodes)[1]
    obs = episodes.obs.copy()
    first = episodes.obs_offset[1]
    obs[first + 3] += 1.0  # what step 2 led to
    after = score(costs, replace(episodes, obs=obs))[1]
    assert np.flatnonzero(before != after).tolist() == [2]


def test_actions_and_the_past_have_no_say(fitted):
    episodes, _, costs = fitted
    changed = replace(episodes, action=-episodes.action)
    for before, after in zip(score(costs, episodes), score(costs, changed)):
        assert (before == after).all()

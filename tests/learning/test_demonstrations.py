"""What a person drove: pools and weights by hand, and a danger that only human segments show how to pass."""

from __future__ import annotations

import importlib

import jax
import numpy as np
import pytest
from conftest import ragged, sparse_costs
from probes import one_step

import rci
from rci.data.errors import RciError
from rci.data.types import Episodes, Labels, Transitions
from rci.learning import fit_behaviour
from rci.learning.behaviour import Config, parse_behaviour
from rci.learning.dataset import draw_fitted, measure_scaling, to_device
from rci.learning.demonstrations import Emphasis, no_costs, pools_for, with_demonstrations
from rci.learning.learners import parse_options

training = importlib.import_module("rci.learning.train")
SMALL = {"hidden": 32, "batch_size": 64, "updates": 1200}
TINY = {"hidden": 8, "batch_size": 8, "updates": 2}


def logs(lengths=(4, 3, 2), stops=(2, -1, 1)):
    episodes = ragged(list(lengths), action_size=1)
    return episodes, Labels.for_episodes(episodes, np.array(stops))


def transitions(episodes, labels):
    return Transitions.build(episodes, labels, no_costs(labels))


def test_demonstrations_stand_behind_what_was_logged():
    episodes, labels = logs()
    human = ragged([2, 1], seed=4, action_size=1)
    logged = transitions(episodes, labels)
    joined = with_demonstrations(logged, human, labels)
    assert len(joined) == len(logged) + 3
    assert (joined.action[: len(logged)] == logged.action).all()
    assert (joined.action[len(logged) :] == human.action).all()
    assert joined.lengths.tolist() == [3, 3, 2, 2, 1]
    assert joined.stopped[joined.last].tolist() == [True, False, True, False, False]
    # The observations of the last one: two rows, the last of all.
    assert (joined.obs[joined.row[-1]] == human.obs[-2]).all()
    assert joined.initial[-1] == len(joined.obs) - 2
    data = to_device(joined, measure_scaling(joined))
    after = np.asarray(data.obs[data.row[-1] + 1])
    assert after == pytest.approx(np.asarray(measure_scaling(joined).obs(human.obs[-1:]))[0])


def test_channels_are_those_of_the_labels():
    episodes = ragged([2, 2], action_size=1)
    labels = Labels.for_episodes(
        episodes, np.array([0, -1]), np.array([[1.0, 0.0], [0.0, 0.0]]), ("car", "road")
    )
    joined = with_demonstrations(transitions(episodes, labels), ragged([3], action_size=1), labels)
    assert joined.label_cost.tolist() == [[1.0, 0.0], *[[0.0, 0.0]] * 5]


def test_pools_by_hand():
    logged = transitions(*logs())  # kept: 3 stopped, 3 safe, 2 stopped
    chosen = np.array([True, True, True])
    assert pools_for(Emphasis(), logged, 0, chosen) is None
    pools = pools_for(Emphasis(10.0, 2, 0.5), logged, 4, chosen)
    # Before a stop: steps 1 and 2 of the first episode, both of the last one.
    assert pools.row.tolist() == [0, 3, 4, 5, 1, 2, 6, 7, 8, 9, 10, 11]
    assert pools.first.tolist() == [0, 4, 8]
    assert pools.size.tolist() == [4, 4, 4]
    # 4 * 1, 4 * 0.5 and 4 * 10 of 46.
    assert np.asarray(pools.until) == pytest.approx(np.array([4, 6, 46]) / 46)
    # An episode that is kept apart is in no pool, and a pool that is empty or never drawn is none.
    apart = pools_for(Emphasis(1.0, 2, 0.0), logged, 0, np.array([True, True, False]))
    assert apart.row.tolist() == [0, 3, 4, 5]
    assert apart.until.tolist() == [1.0]
    with pytest.raises(RciError, match="nothing left to learn from"):
        pools_for(Emphasis(1.0, 9, 0.0), transitions(*logs((2,), (1,))), 0, np.array([True]))


def test_pools_are_drawn_by_their_shares():
    logged = transitions(*logs())
    data = to_device(logged, measure_scaling(logged))
    pools = pools_for(Emphasis(3.0, 1, 0.5), logged, 2, np.ones(3, bool))
    count = 20_000
    drawn = np.asarray(draw_fitted(jax.random.key(1), data._replace(pools=pools), count))
    # Six plain steps of weight 1, two last ones of 1/2, two of a person of 3: 13 in all.
    weight = np.array([1, 1, 0.5, 1, 1, 1, 1, 0.5, 3, 3]) / 13
    share = np.bincount(drawn, minlength=10) / count
    # Ten bounds of 4.5 standard errors each: a false alarm in fewer than 1 of 10,000 keys.
    assert (np.abs(share - weight) < 4.5 * np.sqrt(weight * (1 - weight) / count)).all()
    rows = np.asarray(draw_fitted(jax.random.key(1), data._replace(fitted=jax.numpy.arange(3)), 50))
    assert set(rows.tolist()) == {0, 1, 2}


def crossing(count=120):
    """A machine that always presses on, a > 0, and is stopped half of the time; a person who brakes there, a < 0.

    At the start, [1, 0], the action decides nothing; then it is clear, [0, 0], or there is something ahead, [0, 1].
    Pressing on there earns 1 and ends in a stop; braking earns 0.5. Nothing that the machine did shows how to pass.
    """
    rng = np.random.default_rng(0)
    ahead = np.arange(count) % 2 == 1
    place = np.stack(
        [np.tile([1.0, 0.0], (count, 1)), np.stack([0 * ahead, ahead], 1), np.zeros((count, 2))], 1
    )
    action = rng.uniform(0.2, 1.0, (count, 2, 1))
    flags = {"terminated": np.ones(count, bool), "truncated": np.zeros(count, bool)}
    machine = Episodes(
        obs=place.reshape(-1, 2).astype(np.float32),
        action=action.reshape(-1, 1).astype(np.float32),
        reward=np.tile([0.0, 1.0], count).astype(np.float32),
        lengths=np.full(count, 2),
        **flags,
    )
    human = Episodes(
        obs=np.tile(np.array([[0.0, 1.0], [0.0, 0.0]], np.float32), (count, 1)),
        action=rng.uniform(-1.0, -0.2, (count, 1)).astype(np.float32),
        reward=np.full(count, 0.5, np.float32),
        lengths=np.ones(count, np.int64),
        **flags,
    )
    return machine, Labels.for_episodes(machine, np.where(ahead, 1, -1)), human


@pytest.mark.usefixtures("optimised")
def test_only_the_person_shows_how_to_pass():
    machine, labels, human = crossing()
    costs = sparse_costs(labels)
    danger, clear = np.array([[0.0, 1.0]], np.float32), np.array([[0.0, 0.0]], np.float32)
    kept = {"model_updates": 0, "critics": 2, "likelihood_weight": 0.0, **SMALL}
    config = Config(hidden=32, updates=800)
    alone = rci.learn(
        machine, labels, costs, budget="inf", behaviour=fit_behaviour(machine, labels, 0, config), **kept
    ).with_threshold(0.3)
    model = fit_behaviour(machine, labels, 0, config, demonstrations=human)
    shown = rci.learn(
        machine, labels, costs, budget="inf", behaviour=model, demonstrations=human, **kept
    ).with_threshold(0.3)
    assert alone.act(danger)[0, 0] > 0.1  # nobody showed anything else
    assert shown.act(danger)[0, 0] < -0.1
    assert (
        shown.act(clear)[0, 0] > 0.1 or shown.act(clear)[0, 0] < -0.1
    )  # nothing is forbidden where it is clear
    assert shown.info["demonstrations_hash"] == human.hash
    # Without a threshold it is not the danger that decides, but what is earned.
    assert shown.with_threshold(np.inf).act(danger)[0, 0] > 0.1


@pytest.mark.usefixtures("optimised")
def test_cloning_with_the_weights_of_sirius():
    machine, labels, human = crossing()
    costs, danger = sparse_costs(labels), np.array([[0.0, 1.0]], np.float32)
    mean = rci.learn(machine, labels, costs, "bc", "inf", **SMALL).act(danger)[0, 0]
    both = rci.learn(machine, labels, costs, "bc", "inf", demonstrations=human, **SMALL).act(danger)[0, 0]
    sirius = rci.learn(
        machine,
        labels,
        costs,
        "bc",
        "inf",
        demonstrations=human,
        demonstration_weight=10.0,
        window=1,
        **SMALL,
    ).act(danger)[0, 0]
    # About 0.6 for the machine and -0.6 for the person: alike 0, and with 10 against 0.1 nearly the person's.
    assert mean == pytest.approx(0.6, abs=0.15)
    assert both == pytest.approx(0.0, abs=0.2)
    assert sirius == pytest.approx(-0.6, abs=0.15)


def test_weights_compile_nothing_again(monkeypatch):
    machine, labels, human = crossing(20)
    costs, traces = sparse_costs(labels), []
    whole = training._compiled.__wrapped__
    compiled = []

    def counted(make, config):
        start, run = whole(make, config)
        compiled.append(run)
        return start, run

    monkeypatch.setattr(training, "_compiled", training.lru_cache(counted))
    for weight in (1.0, 5.0):
        rci.learn(
            machine,
            labels,
            costs,
            "bc",
            "inf",
            demonstrations=human,
            demonstration_weight=weight,
            window=1,
            **TINY,
        )
        traces.append([run._cache_size() for run in compiled])
    assert traces == [[1], [1]]


def test_without_demonstrations_nothing_is_new():
    """The same policy and nothing more in its description: the bits of before."""
    episodes, labels = one_step(40)
    policy = rci.learn(episodes, labels, sparse_costs(labels), "bc", "inf", **TINY)
    assert not {"demonstrations_hash", "emphasis"} & set(policy.info)
    same = rci.learn(episodes, labels, sparse_costs(labels), "bc", "inf", window=0, **TINY)
    assert same.hash == policy.hash
    logged = transitions(episodes, labels)
    data, key = to_device(logged, measure_scaling(logged)), jax.random.key(3)
    plain = jax.random.randint(jax.random.clone(key), (9,), 0, len(logged))
    assert (draw_fitted(key, data, 9) == plain).all()


def test_demonstrations_that_cannot_be_used():
    machine, labels, human = crossing(20)
    costs = sparse_costs(labels)

    def learn(method="bc", demonstrations=human, **options):
        return rci.learn(
            machine, labels, costs, method, "inf", demonstrations=demonstrations, **TINY, **options
        )

    with pytest.raises(RciError, match="learns from no demonstrations; bc and feasible do both"):
        learn("bc-safe")
    with pytest.raises(RciError, match="draws all steps alike"):
        parse_options("cpq", {"window": 3})
    with pytest.raises(RciError, match="no demonstrations to weigh"):
        learn(demonstrations=None, demonstration_weight=2.0)
    with pytest.raises(RciError, match=r"obs of demonstrations must have the shape .* \(2,\), got \(3,\)"):
        learn(demonstrations=ragged([2], action_size=1))
    with pytest.raises(RciError, match="must be of type Episodes"):
        learn(demonstrations=labels)
    whole = dict(human.arrays())
    whole["action"] = np.ones_like(whole["action"], np.int64)
    with pytest.raises(RciError, match="convert them to float32"):
        learn(demonstrations=Episodes(**whole))
    behaviour = fit_behaviour(machine, labels, 0, Config(hidden=8, updates=1))
    with pytest.raises(RciError, match="with other demonstrations"):
        learn("feasible", behaviour=behaviour)
    for options, message in (
        ({"demonstration_weight": 0.0}, "demonstration_weight must be more than 0"),
        ({"window": -1}, "window must not be negative"),
        ({"window_weight": -0.1}, "window_weight must be at least 0"),
    ):
        with pytest.raises(RciError, match=message):
            parse_behaviour(options)


def test_scaling_covers_both():
    """The range of actions is that of machine and person: what only the person did can be proposed."""
    machine, labels, human = crossing(20)
    model = fit_behaviour(machine, labels, 0, Config(hidden=8, updates=1), demonstrations=human)
    low = model.model.arrays["scaling.action_centre"] - model.model.arrays["scaling.action_reach"]
    assert low == pytest.approx(human.action.min())

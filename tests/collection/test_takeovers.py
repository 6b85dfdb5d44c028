"""A person at the wheel: when somebody takes over and hands back, by hand, and whole recordings."""

from __future__ import annotations

import numpy as np
import pytest
from collection.test_informed import TINY

from rci.collection.informed import drive, train_informed
from rci.collection.takeovers import Watch, Wheel, collect_takeovers, record_together
from rci.data.errors import RciError
from rci.data.segments import cut
from rci.tasks import get
from rci.tasks.rollout import COLLECTION, episode_seeds


def drives(watch, *distances):
    """Who drives each step of one world, from what is seen before it."""
    wheel = Wheel(watch, 1)
    return "".join("h" if wheel.turn(np.array([distance]))[0] else "m" for distance in distances)


def test_a_takeover_step_by_step():
    watch = Watch(alarm=0.3, reaction=2, calm=0.5, patience=2)
    # Alarmed at the second step; two steps later the person drives, until the road has been free for two steps.
    assert drives(watch, 0.4, 0.28, 0.25, 0.22, 0.3, 0.5, 0.4, 0.6, 0.7, 0.4) == "mmmhhhhhmm"
    # A danger that goes away does not alarm, and neither does one that is far off.
    assert drives(watch, 0.1, 0.2, 0.25, 0.29, 0.3) == "mmhhh"  # the first one came from nowhere
    assert drives(watch, 0.9, 0.8, 0.5, 0.4, 0.31) == "mmmmm"
    # Once alarmed, the hand is on its way; the road must then be free for a while as for any other takeover.
    assert drives(watch, 0.4, 0.2, 0.9, 0.4, 0.9, 0.9) == "mmmhhm"


def test_without_a_reaction_time_the_same_step():
    watch = Watch(alarm=0.3, reaction=0, calm=0.3, patience=1)
    assert drives(watch, 0.4, 0.2, 0.25, 0.3, 0.2) == "mhhmh"


def test_worlds_do_not_touch_each_other():
    wheel = Wheel(Watch(reaction=0), 2)
    assert wheel.turn(np.array([0.9, 0.9])).tolist() == [False, False]
    assert wheel.turn(np.array([0.9, 0.2])).tolist() == [False, True]


def test_each_drives_its_own_steps():
    """Of two drivers with an action each, on `point`, whose seeker comes near the hazard."""
    task, watch = get("point"), Watch(alarm=3.0, calm=4.0, reaction=1)
    rng = np.random.default_rng(0)

    def seek(obs):
        return task.behaviours["seeker"](rng, obs)

    def away(obs):
        return np.full((len(obs), 2), -1.0, np.float32)

    recorded, human = record_together("point", seek, away, episode_seeds(5, COLLECTION, 0, 20), watch)
    assert len(human) == int(recorded.lengths.sum())
    assert 0 < human.sum() < len(human)
    assert (recorded.action[human] == -1.0).all()
    assert not (recorded.action[~human] == -1.0).all(axis=-1).any()


@pytest.fixture(scope="module")
def drivers():
    machine = train_informed("point", 0.0, 1, TINY)
    return machine, train_informed("point", 2.0, 1, TINY, machine)


def test_recordings_are_reproducible_and_can_be_cut(drivers):
    watch = Watch(alarm=3.0, calm=4.0, reaction=1)
    episodes, takeovers = collect_takeovers("point", *drivers, 30, 4, watch)
    again, same = collect_takeovers("point", *drivers, 30, 4, watch)
    assert (again.hash, same.hash) == (episodes.hash, takeovers.hash)
    assert collect_takeovers("point", *drivers, 30, 5, watch)[0].hash != episodes.hash
    found = cut(episodes, takeovers)
    assert len(found.human) == len(takeovers)
    assert found.labels.stopped.any()
    obs = episodes.obs[:3]
    still = drive(drivers[0])(obs)
    assert (still == drive(drivers[0])(obs)).all()
    assert not (drive(drivers[0], np.random.default_rng(0))(obs) == still).all()


def test_what_is_refused(drivers):
    with pytest.raises(RciError, match="the person was trained on 'point', not on 'highway'"):
        collect_takeovers("highway", _of("highway", drivers[0]), drivers[1])
    with pytest.raises(RciError, match="machine must be of type Informed"):
        collect_takeovers("point", None, drivers[1])
    with pytest.raises(RciError, match="at least one episode"):
        collect_takeovers("point", *drivers, 0)
    for settings, message in (
        ({"alarm": 0.4, "calm": 0.3}, "free from a distance on that does not alarm"),
        ({"reaction": -1}, "reaction must not be negative"),
        ({"patience": 0}, "patience must be at least 1"),
    ):
        with pytest.raises(RciError, match=message):
            Watch(**settings)


def _of(task, driver):
    return type(driver)(driver.model, {**driver.info, "task": task})

"""Episodes as curves: what is sent, in which order, to which scale, and what is taken for a position."""

from __future__ import annotations

import numpy as np
import pytest

from rci.data.artefacts.signals import Signal, Signals
from rci.data.types import Episode, Episodes
from rci.tasks.signal_film import MOST_SHOWN, MOST_TRACKS, guess_place, plan_signals, signal_film


def of(*pairs: tuple[np.ndarray, np.ndarray]) -> Episodes:
    return Episodes.from_list([Episode(o, a, np.zeros(len(a)), False, True) for o, a in pairs])


TIME = np.arange(4.0)
MOVES = np.stack([np.full(4, 7.0), TIME, np.zeros(4), -TIME], -1), np.stack([np.ones(3), TIME[:3]], -1)
STANDS = np.full((4, 4), [7.0, 0.0, 5.0, 1.0]), np.full((3, 2), [1.0, -2.0])


def test_the_order_and_the_scale_are_those_of_all_episodes():
    """Whether a signal will move in this episode, and how far, is not to be seen before it does."""
    episodes = of(MOVES, STANDS)
    plan = plan_signals(episodes)
    names = [track["name"] for track in plan.tracks]
    assert names == ["obs 1", "obs 2", "obs 3", "action 1", "obs 0", "action 0"]
    scale = {track["name"]: (track["low"], track["high"]) for track in plan.tracks}
    assert scale["obs 3"] == (-3, 1)
    assert scale["action 1"] == (-2, 2)
    assert scale["obs 0"] == (7, 7)
    films = [signal_film(episode, plan) for episode in episodes]
    assert films[0].kind == "signals"
    assert films[0].facts == films[1].facts
    values = {t["name"]: films[0].arrays[t["array"]][:, t["column"]] for t in plan.tracks}
    assert values["obs 3"].tolist() == [0, -1, -2, -3]
    assert values["obs 0"].tolist() == [7] * 4
    assert values["action 1"].tolist() == [0, 1, 2]


def test_matrices_are_named_by_row_and_column_and_only_some_are_sent():
    obs = np.random.default_rng(0).normal(size=(3, 20, 10))
    plan = plan_signals(of((obs, np.zeros((2, 1)))))
    film = signal_film(Episode(obs, np.zeros((2, 1)), np.zeros(2), False, True), plan)
    assert len(film.facts["tracks"]) == MOST_TRACKS == 96
    assert film.facts["shown"] == MOST_SHOWN
    assert (
        film.facts["tracks"][23].items()
        >= {"name": "obs 2,3", "unit": "", "array": "obs", "column": 23}.items()
    )
    assert film.arrays["obs"].shape == (3, 96)
    assert film.arrays["obs"][:, 23].tolist() == obs[:, 2, 3].tolist()
    assert film.arrays["action"].shape == (2, 0)


def test_names_and_units_are_those_of_the_logs():
    named = Signals(
        tuple(Signal(name, "m") for name in ("pose x", "pose y", "lidar_3", "z")),
        (Signal("turn", "rad/s"), Signal("gas")),
    )
    plan = plan_signals(Episodes(**of(MOVES, STANDS).arrays(), signals=named))
    assert [(t["name"], t["unit"]) for t in plan.tracks if t["array"] == "action"] == [
        ("gas", ""),
        ("turn", "rad/s"),
    ]
    across, up = plan.place
    assert (plan.tracks[across]["name"], plan.tracks[up]["name"]) == ("pose x", "pose y")
    assert plan.facts["place"] == [across, up]


@pytest.mark.parametrize(
    ("names", "place"),
    [
        ("x y", (0, 1)),
        ("y x", (1, 0)),
        ("speed pos_x pos_y", (1, 2)),
        ("PoseX PoseY", (0, 1)),
        ("px py vx vy", (0, 1)),
        ("lidar_x lidar_y x y", (2, 3)),
        (
            "/odom.twist.twist.linear.x /odom.twist.twist.linear.y /odom.pose.position.x /odom.pose.position.y",
            (2, 3),
        ),
        ("longitude latitude", (0, 1)),
        ("vx vy", None),
        ("goal_x goal_y", None),
        ("x_vel y_vel", None),
        ("x z", None),
        ("obs_0 obs_1", None),
    ],
)
def test_what_is_taken_for_a_position(names, place):
    assert guess_place([{"name": name, "unit": "", "array": "obs"} for name in names.split()]) == place


def test_a_position_is_observed_and_has_one_unit():
    x, y = {"name": "x", "unit": "m", "array": "obs"}, {"name": "y", "unit": "m", "array": "obs"}
    assert guess_place([x, y]) == (0, 1)
    assert guess_place([x, {**y, "unit": "ft"}]) is None
    assert guess_place([x, {**y, "array": "action"}]) is None

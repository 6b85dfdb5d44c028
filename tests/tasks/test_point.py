import numpy as np
import pytest

from rci.collection import collect
from rci.data.errors import RciError
from rci.data.types import Episodes
from rci.tasks import TASKS, make, make_vec, observe_truth, point


def test_thrust_motion_and_walls_by_hand():
    position, velocity = point.move(np.array([[0, 34]]), np.array([[3, 1]]), np.array([[1, 1]]))
    assert position.tolist() == [[4, 35]]  # 34 + 2 would pass the wall at 35
    assert velocity.tolist() == [[4, 0]]
    _, velocity = point.move(np.array([[0, 0]]), np.array([[4, -4]]), np.array([[1, -1]]))
    assert velocity.tolist() == [[4, -4]]


def test_observations_hold_the_state_exactly():
    x, y = np.meshgrid(np.arange(-55, 56), np.arange(-35, 36))
    position = np.stack([x.ravel(), y.ravel()], 1)
    velocity = np.random.default_rng(0).integers(-4, 5, position.shape)
    again = point.decode(point.encode(position, velocity))
    assert np.array_equal(again[0], position)
    assert np.array_equal(again[1], velocity)


def test_the_edge_of_the_hazard_is_unsafe():
    obs = point.encode(np.array([[12, 0], [13, 0], [0, -12], [9, 8], [9, 7]]), np.zeros((5, 2)))
    assert point.unsafe(obs).tolist() == [True, False, True, False, True]
    assert point.hazard_distance(obs)[:2].tolist() == [0.0, 1.0]


def test_reward_is_progress_minus_a_price_per_step():
    envs = make_vec("point", 1)
    envs.reset(seed=0)
    envs.simulator.position[:] = [[-40, 0]]
    envs.simulator.velocity[:] = [[4, 0]]
    _, reward, terminated, truncated, _ = envs.step(np.zeros((1, 2)))
    assert reward[0] == pytest.approx(4 / 50 - 0.02)
    assert not terminated[0]
    assert not truncated[0]


def test_goal_terminates_and_time_truncates():
    envs = make_vec("point", 2, horizon=2)
    envs.reset(seed=0)
    envs.simulator.position[:] = [[36, 0], [-50, 0]]
    envs.simulator.velocity[:] = [[4, 0], [0, 0]]
    _, _, terminated, truncated, _ = envs.step(np.zeros((2, 2)))
    assert terminated.tolist() == [True, False]
    assert truncated.tolist() == [False, False]
    assert envs.step(np.zeros((2, 2)))[3].tolist() == [False, True]


def test_thrusters_fire_as_often_as_they_are_pressed():
    envs = make_vec("point", 4000)
    envs.reset(seed=0)
    before = envs.simulator.velocity.copy()
    envs.step(np.tile([0.3, -0.8], (4000, 1)))
    change = envs.simulator.velocity - before
    # 4.4 standard errors on each of two shares: false alarm about 2e-5
    assert change[:, 0].mean() == pytest.approx(0.3, abs=4.4 * np.sqrt(0.21 / 4000))
    assert change[:, 1].mean() == pytest.approx(-0.8, abs=4.4 * np.sqrt(0.16 / 4000))


@pytest.mark.parametrize("name", ["seeker", "random"])
def test_stated_thruster_probabilities_are_those_of_the_behaviour(name):
    rng = np.random.default_rng(1)
    position, velocity = np.array([[-20, 7]]), np.array([[3, -1]])
    action = TASKS["point"].behaviours[name](rng, np.repeat(point.encode(position, velocity), 200_000, 0))
    stated = point.THRUST[name](position, velocity)[0]
    assert stated.sum(-1) == pytest.approx([1, 1])
    for axis in range(2):
        # mean over 200,000 draws of a variable in [0, 1]: 5 standard errors are at most 0.0056
        assert np.maximum(action[:, axis], 0).mean() == pytest.approx(stated[axis, 2], abs=0.0056)
        assert np.maximum(-action[:, axis], 0).mean() == pytest.approx(stated[axis, 0], abs=0.0056)


def test_exact_risk_one_step_before_the_end_by_hand():
    """From x = -16, vx = 3 the hazard's edge at -12 is reached in one step only if the thruster fires forwards."""
    chances = dict(point.violation_chance(point.random_thrust, 1))
    row, column = point._flat_state(np.array([-16, 0]), np.array([3, 0]))
    # forwards 1/4; then y moves to -1, 0 or 1, and (-12, +-1) lies outside the circle
    assert chances[1][row, column] == pytest.approx(0.25 * 0.5)
    assert chances[0].max() == 0


def test_exact_risk_is_a_calibrated_martingale():
    episodes, oracle = collect("point", 4000, "mixed", seed=5)
    risk = point.risk(episodes)
    violated = oracle.first_unsafe() >= 0
    ends = risk[episodes.step_offset[1:] - 1]
    assert np.array_equal(ends == 1.0, violated)
    assert set(np.unique(ends)) <= {0.0, 1.0}
    for step in (0, 8, 16):
        alive = episodes.lengths > step
        said = risk[episodes.step_offset[:-1][alive] + step]
        # the sum of (outcome - chance) has variance sum chance (1 - chance): 4 standard errors, false alarm 6e-5
        error = (violated[alive] - said).sum() / np.sqrt((said * (1 - said)).sum() + 1e-9)
        assert abs(error) < 4


def test_risk_needs_a_known_behaviour():
    episodes, _ = collect("point", 4, "random", seed=5)
    unknown = Episodes(**{**episodes.arrays(), "source": None})
    with pytest.raises(RciError, match="recorded by seeker, random"):
        point.risk(unknown)


def test_truth_is_read_after_each_step():
    episodes, oracle = collect("point", 30, "seeker", seed=1)
    again = observe_truth(TASKS["point"], episodes)
    assert np.array_equal(again.unsafe, oracle.unsafe)
    i = int(np.argmax(oracle.first_unsafe() >= 0))
    stop = oracle.first_unsafe()[i]
    inside = point.unsafe(episodes[i].obs)
    assert inside[stop + 1]
    assert not inside[: stop + 1].any()


def test_single_environment_is_the_first_of_a_batch():
    env, envs = make("point"), make_vec("point", 3)
    obs, _ = env.reset(seed=7)
    many, _ = envs.reset(seed=7)
    assert np.array_equal(obs, many[0])
    step, steps = env.step(np.array([1.0, 0.5])), envs.step(np.tile([1.0, 0.5], (3, 1)))
    assert np.array_equal(step[0], steps[0][0])
    assert step[1] == steps[1][0]


def test_bad_task_input():
    with pytest.raises(RciError, match="unknown task 'pont'. Did you mean 'point'"):
        make("pont")
    with pytest.raises(RciError, match="at least 1"):
        make_vec("point", 0)
    with pytest.raises(RciError, match="horizon"):
        make_vec("point", 1, horizon=0)
    envs = make_vec("point", 2)
    envs.reset(seed=0)
    with pytest.raises(RciError, match=r"shape \(2, 2\), got \(2, 3\)"):
        envs.step(np.zeros((2, 3)))
    with pytest.raises(RciError, match="environment 1 is not finite"):
        envs.step(np.array([[0, 0], [np.nan, 0]]))
    with pytest.raises(RciError, match="one seed for each of 2"):
        envs.reset(seed=[1])


def test_the_probe_is_a_grid_over_the_world():
    grid = point.probe()
    position, velocity = point.decode(grid.obs)
    assert grid.obs.shape == (len(grid.y), len(grid.x), 4)
    assert position[3, 5].tolist() == [grid.x[5], grid.y[3]]
    assert (velocity == [2, 0]).all()

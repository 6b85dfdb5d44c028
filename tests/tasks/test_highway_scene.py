import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Polygon

from rci.tasks.highway import scene


def seen(*cars: tuple[float, float], ego_y: float = 4.0) -> np.ndarray:
    """An observation of cars at metres (ahead, to the right) of an ego in the second lane."""
    obs = np.zeros((5, 7))
    obs[0] = [1, 1, ego_y / 16, 28 / 80, 0, 1, 0]
    for row, (ahead, right) in zip(obs[1:], cars):
        row[:] = [1, ahead / 200, right / 16, -6 / 80, 0, 1, 0]
    return obs.astype(np.float32)


def drawn(obs: np.ndarray):
    axes = Figure().add_subplot()
    scene.draw_scene(axes, obs)
    return axes


def cars_of(axes) -> list[tuple[float, float]]:
    """Centres of the drawn cars, ego first."""
    patches = [patch for patch in axes.patches if type(patch) is Polygon]
    return [tuple(np.round(patch.get_xy()[:4].mean(0), 3).tolist()) for patch in patches]


def test_cars_are_read_in_metres() -> None:
    cars = scene.read_scene(seen((50, 4), (-8, -4)))
    assert cars.along == pytest.approx([0, 50, -8], abs=1e-4)
    assert cars.across == pytest.approx([4, 8, 0], abs=1e-5)
    assert not cars.danger[1]
    assert cars.danger.tolist() == [False, False, False]  # hypot(8 / 200, 4 / 16) = 0.253


@pytest.mark.parametrize(
    ("ahead", "right", "danger"),
    [
        (39.9, 0, True),
        (40.1, 0, False),
        (0, 3.19, True),
        (0, 3.21, False),
        (24, 2.55, True),
        (24, 2.57, False),
    ],
)
def test_danger_is_an_ellipse_of_40_by_3_2_metres(ahead: float, right: float, danger: bool) -> None:
    assert scene.read_scene(seen((ahead, right))).danger.tolist() == [False, danger]


def test_missing_cars_are_no_danger() -> None:
    assert len(scene.read_scene(seen()).along) == 1


def test_corners_of_a_straight_and_of_a_turned_car() -> None:
    straight, turned = scene.car_corners(
        np.array([10.0, 0.0]), np.array([4.0, 0.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    )
    assert straight.tolist() == [[12.5, 3], [12.5, 5], [7.5, 5], [7.5, 3]]
    # A quarter turn to the right: the nose points across the road, the left side ahead.
    assert turned.tolist() == [[1, 2.5], [-1, 2.5], [-1, -2.5], [1, -2.5]]


def test_the_ego_drives_up_the_page_with_its_right_on_the_right() -> None:
    axes = drawn(seen((50, 4), (90, -4)))
    assert cars_of(axes) == [(4, 0), (8, 50), (0, 90)]
    assert axes.get_xlim() == (-4, 16)
    assert axes.get_ylim() == (-15, 100)
    assert axes.get_aspect() == 1.0


def test_the_danger_ellipse_is_drawn_to_scale() -> None:
    ellipse = next(patch for patch in drawn(seen()).patches if isinstance(patch, Ellipse))
    assert (ellipse.center, ellipse.width, ellipse.height) == ((4.0, 0.0), 6.4, 80.0)


def test_an_unsafe_scene_stands_out() -> None:
    safe, unsafe = drawn(seen((50, 0))), drawn(seen((30, 0), (50, 0)))
    assert not any(spine.get_visible() for spine in safe.spines.values())
    assert all(spine.get_visible() for spine in unsafe.spines.values())
    colors = [patch.get_facecolor()[:3] for patch in unsafe.patches if type(patch) is Polygon]
    assert colors[1] != colors[2]


@pytest.mark.parametrize(("ego_y", "view"), [(16.0, (-2, 18)), (-16.0, (-18, 2)), (13.0, (-4, 16))])
def test_the_view_follows_an_ego_that_leaves_the_road(ego_y: float, view: tuple[float, float]) -> None:
    assert drawn(seen(ego_y=ego_y)).get_xlim() == view


def test_an_observation_by_hand() -> None:
    ego = np.array([100.0, 4.0])
    cars = np.array([[89.0, 4.0], [91.0, 0.0], [110.0, 8.0], [305.0, 4.0], [160.0, 4.0], [120.0, 12.0]])
    obs = scene.observe(ego, cars, 28.0, 20.0)
    expected = [
        [1, 1, 0.25, 0.35, 0, 1, 0],
        [1, -0.045, -0.25, -0.1, 0, 1, 0],  # 9 m behind is seen, 11 m is not
        [1, 0.05, 0.25, -0.1, 0, 1, 0],
        [1, 0.1, 0.5, -0.1, 0, 1, 0],
        [1, 0.3, 0, -0.1, 0, 1, 0],
    ]
    assert obs == pytest.approx(np.array(expected), abs=1e-7)
    assert obs.dtype == np.float32


def test_cars_out_of_sight_are_rows_of_zeros() -> None:
    cars = np.array([[0.0, 0.0], [50.0, 0.0], [250.0, 0.0], [330.0, 0.0]])
    obs = scene.observe(np.array([[100.0, 0.0], [40.0, 0.0]]), cars, 28.0, 22.0)
    assert obs[..., 0].tolist() == [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0]]
    assert obs[:, 1, 1] == pytest.approx([0.75, 0.05])
    assert not obs[:, 2:].any()


def test_the_probe_covers_the_road() -> None:
    probe = scene.probe()
    assert probe.obs.shape == (33, 60, 5, 7)
    assert (probe.x[0], probe.x[-1], probe.y[0], probe.y[-1]) == (0, 120, -2, 14)
    assert (probe.obs[..., 0] == 1).all()  # every row is filled everywhere, as in real traffic
    row, column = 12, 0  # y = 4 m, x = 0: the nearest car is 45 m ahead in the same lane
    assert probe.y[row] == 4.0
    assert probe.obs[row, column, :3] == pytest.approx(
        np.array(
            [[1, 1, 0.25, 0.35, 0, 1, 0], [1, 0.225, 0, -0.075, 0, 1, 0], [1, 0.375, 0.5, -0.075, 0, 1, 0]]
        ),
        abs=1e-7,
    )
    distance = np.abs(probe.obs[..., 1:, 1])
    assert (np.diff(distance, axis=-1) >= 0).all()


def test_the_cars_that_fill_rows_endanger_nobody_on_the_map() -> None:
    probe = scene.probe()
    near = np.hypot(probe.obs[..., 1:, 1], probe.obs[..., 1:, 2]) <= 0.2
    car_x = probe.x[None, :, None] + 200 * probe.obs[..., 1:, 1]
    assert car_x[near].max() == pytest.approx(100, abs=1e-3)


def test_the_probe_draws_its_cars_where_they_are() -> None:
    axes = Figure().add_subplot()
    scene.probe().draw(axes)
    assert cars_of(axes)[:3] == [(45, 4), (75, 12), (100, 8)]
    assert axes.get_ylim() == (14, -2)  # the rightmost lane at the bottom, as seen from above


def test_danger_is_that_of_the_task() -> None:
    from rci.tasks.highway.task import too_close

    obs = scene.probe().obs[::4, ::3].reshape(-1, 5, 7)
    danger = [scene.read_scene(row).danger.any() for row in obs]
    assert too_close(obs).tolist() == danger
    assert 0.1 < np.mean(danger) < 0.9


def test_the_probe_sees_what_highway_env_would_show() -> None:
    pytest.importorskip("highway_env")
    import rci.tasks

    env = rci.tasks.make("highway")
    env.reset(seed=0)
    world = env.unwrapped
    ego, *others = world.road.vehicles
    world.road.vehicles = [ego, *others[: len(scene.PROBE_CARS)]]
    start = 500.0  # m: far enough for the ego's x to saturate
    probe = scene.probe()

    def place(car, x: float, y: float, speed: float) -> None:
        car.position, car.heading, car.speed = np.array([start + x, y]), 0.0, speed
        car.on_state_update()

    for car, (x, lane) in zip(world.road.vehicles[1:], scene.PROBE_CARS):
        place(car, x, 4.0 * lane, scene.PROBE_SPEED)
    for row, column in ((4, 0), (12, 20), (20, 28), (28, 40), (32, 59)):
        place(ego, probe.x[column], probe.y[row], scene.EGO_SPEED)
        np.testing.assert_allclose(
            probe.obs[row, column], world.observation_type.observe(), atol=1e-6, err_msg=f"{row}, {column}"
        )
    env.close()

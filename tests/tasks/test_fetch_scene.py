import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from rci.data.errors import RciError
from rci.tasks.fetch_reach import scene
from rci.tasks.fetch_reach.hazard import ACHIEVED, GOAL, GRIPPER, HAZARD, START, VELOCITY, Hazard

AHEAD = Hazard((START[0] + 0.06, START[1], START[2]), 0.04)
ABOVE = Hazard((START[0], START[1], START[2] + 0.09), 0.05)
DIAGONAL = Hazard((1.40, 0.80, 0.48), 0.06)
LARGE = Hazard((START[0], START[1] - 0.09, START[2]), 0.08)
HAZARDS = [AHEAD, ABOVE, DIAGONAL, LARGE]


def observation(gripper, goal=START, velocity=(0.0, 0.0, 0.0)) -> np.ndarray:
    obs = np.zeros(16, np.float32)
    obs[GRIPPER] = obs[ACHIEVED] = gripper
    obs[GOAL], obs[VELOCITY] = goal, velocity
    return obs


def drawn(hazard: Hazard, obs: np.ndarray):
    axes = Figure().add_subplot()
    scene.draw_scene(hazard, axes, obs)
    return axes


def dot(axes, color: str) -> Circle:
    """The dot of this colour, with its white edge."""
    found = [p for p in axes.patches if isinstance(p, Circle) and to_hex(p.get_facecolor()) == color]
    (one,) = [p for p in found if p.radius == scene.DOT]
    return one


def test_the_projection_by_hand() -> None:
    assert scene.project(START).tolist() == [0, 0]
    turned, raised = np.deg2rad(24), np.deg2rad(24)
    expected = [
        [np.cos(turned), np.sin(turned) * np.sin(raised)],  # x: to the right, and away
        [-np.sin(turned), np.cos(turned) * np.sin(raised)],  # y: away, and a little to the left
        [0, np.cos(raised)],  # z: straight up
    ]
    assert scene.project(START + np.eye(3)) == pytest.approx(np.array(expected))


def test_the_projection_is_orthographic() -> None:
    basis = np.stack([scene.RIGHT, scene.UP, scene.FORWARD])
    assert basis @ basis.T == pytest.approx(np.eye(3))
    assert np.linalg.det(np.stack([scene.RIGHT, scene.UP, -scene.FORWARD])) == pytest.approx(1.0)
    outline = scene.RIGHT[None] * 0.05 * np.cos(np.linspace(0, 6, 9))[:, None]
    outline = outline + scene.UP[None] * 0.05 * np.sin(np.linspace(0, 6, 9))[:, None]
    assert np.linalg.norm(scene.project(START + outline), axis=-1) == pytest.approx(np.full(9, 0.05))


def test_layers() -> None:
    centre, forward = np.array(AHEAD.centre), scene.FORWARD
    places = [
        centre + 0.041 * forward,
        centre + 0.039 * forward,
        centre - 0.039 * forward,
        centre - 0.041 * forward,
    ]
    assert scene.layer(AHEAD, np.array(places)).tolist() == [
        scene.BEHIND,
        scene.INSIDE,
        scene.INSIDE,
        scene.BEFORE,
    ]
    assert scene.layer(AHEAD, places[0], -forward) == scene.BEFORE


def test_the_gripper_is_drawn_behind_in_and_before_the_sphere() -> None:
    centre = np.array(AHEAD.centre)
    sides = sorted({p.zorder for p in drawn(AHEAD, observation(START)).patches if p.get_alpha() == 0.25})
    orders = []
    for away, color in ((0.08, "#0072b2"), (0.0, "#d55e00"), (-0.08, "#0072b2")):
        gripper = dot(drawn(AHEAD, observation(centre + away * scene.FORWARD)), color)
        assert gripper.center == pytest.approx(scene.project(centre), abs=1e-6)
        orders.append(gripper.zorder)
    assert orders[0] < sides[0] < orders[1] < sides[1] < orders[2]


def test_of_goal_and_gripper_the_nearer_one_comes_last() -> None:
    for away in (-0.05, 0.05):
        axes = drawn(ABOVE, observation(START - [0, 0, 0.05], START - [0, 0, 0.05] + away * scene.FORWARD))
        goal, gripper = dot(axes, "#009e73"), dot(axes, "#0072b2")
        assert (goal.zorder > gripper.zorder) == (away < 0)


def test_an_unsafe_scene_stands_out() -> None:
    for place, unsafe in ((START, False), (AHEAD.centre, True)):
        axes = drawn(AHEAD, observation(place))
        assert all(spine.get_visible() == unsafe for spine in axes.spines.values())


def test_the_line_shows_the_velocity() -> None:
    axes = drawn(AHEAD, observation(START, velocity=(0.01, 0.0, 0.02)))
    (line,) = [line for line in axes.lines if line.get_color() == "#1f2430"]
    expected = scene.project(np.array([START, START + 4 * np.array([0.01, 0.0, 0.02])]))
    assert line.get_xydata() == pytest.approx(expected, abs=1e-6)


def test_every_goal_fits_into_a_frame() -> None:
    corners = START + 0.15 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    (left, right), (bottom, top) = scene.FRAME
    across, up = scene.project(corners).T
    assert left < across.min() - scene.DOT
    assert right > across.max() + scene.DOT
    assert bottom < up.min() - scene.DOT
    assert top > up.max() + scene.DOT


@pytest.mark.parametrize("hazard", HAZARDS)
def test_views_show_the_hazard_to_scale(hazard: Hazard) -> None:
    above, side = scene.views(hazard)
    assert (above.name, side.name) == ("from above", "from the side")
    for view, axis in ((above, [0, 1]), (side, [0, 2])):
        axes = Figure().add_subplot()
        view.draw(axes)
        (circle,) = [p for p in axes.patches if isinstance(p, Circle)]
        assert circle.center == pytest.approx(np.array(hazard.centre)[axis])
        assert circle.radius == hazard.radius
        assert axes.get_aspect() == 1.0
        assert axes.get_xlim() == pytest.approx((START[0] - 0.25, START[0] + 0.25))
        cube = next(
            p for p in axes.patches if isinstance(p, Rectangle) and p.get_width() == pytest.approx(0.3)
        )
        assert cube.get_xy() == pytest.approx(START[axis] - 0.15)
        assert view.position(np.stack([observation(hazard.centre)] * 2)) == pytest.approx(
            np.array([np.array(hazard.centre)[axis]] * 2), abs=1e-6
        )


def test_the_table_is_where_the_model_has_it() -> None:
    corners = scene._table_corners()
    assert corners.mean(0) == pytest.approx([1.3, 0.75, 0.4])
    assert np.ptp(corners, axis=0) == pytest.approx([0.5, 0.7, 0.0])


def test_paths_that_enter_the_hazard_stand_out() -> None:
    t = np.linspace(0, 1, 30)[:, None]
    through = START + t * [0.14, 0.0, 0.0]
    clear = np.array(AHEAD.centre) - (0.06 + 0.05 * t) * scene._looking(20, -62)
    behind = np.array(AHEAD.centre) + 0.06 * scene._looking(20, -62) + (t - 0.5) * [0.0, 0.0, 0.1]
    figure = scene.paths_3d(AHEAD, [through, clear, behind], np.stack([through[-1], clear[-1], behind[-1]]))
    (axes,) = figure.axes
    lines = [(line.get_color(), line.zorder) for line in axes.lines]
    assert ("#0072b2", 2.0) in lines  # behind the sphere, which is at 3
    assert ("#0072b2", 4.0) in lines
    # The eye is on the side of positive x: the way leads from behind the sphere through it and out before it
    assert [zorder for color, zorder in lines if color == "#d55e00"] == [2.5, 4.5, 4.5]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[:2] == ["enters the hazard (1)", "stays outside (2)"]
    FigureCanvasAgg(figure).draw()


def test_pieces_of_a_path_join() -> None:
    path = np.array(AHEAD.centre) + np.linspace(-0.1, 0.1, 21)[:, None] * scene.FORWARD
    pieces = scene._pieces(AHEAD, path, scene.FORWARD)
    assert [level for _, level in pieces] == [scene.BEFORE, scene.INSIDE, scene.BEHIND]
    whole = np.concatenate([piece[:-1] for piece, _ in pieces] + [pieces[-1][0][-1:]])
    assert (whole == path).all()
    assert scene._pieces(AHEAD, path[:1], scene.FORWARD) == []


def test_no_paths_at_all() -> None:
    figure = scene.paths_3d(AHEAD, [], np.zeros((0, 3)))
    FigureCanvasAgg(figure).draw()


def test_the_slice_leads_to_the_hazard() -> None:
    assert scene.slice_axes(AHEAD) == pytest.approx(np.array([[1, 0, 0], [0, 0, 1]]))
    assert scene.slice_axes(ABOVE) == pytest.approx(np.array([[0, 0, 1], [0, 1, 0]]))
    assert scene.slice_axes(LARGE) == pytest.approx(np.array([[0, -1, 0], [0, 0, 1]]))
    along, up = scene.slice_axes(DIAGONAL)
    assert up[2] > 0
    assert along @ up == pytest.approx(0)
    assert 0.1 * along == pytest.approx((np.array(DIAGONAL.centre) - START) * 0.1 / 0.0947, abs=1e-4)


def test_the_probes_goal_by_hand() -> None:
    assert scene.probe_goal(AHEAD) == pytest.approx([0.06 + 0.03, 0.04 + 0.02])
    # 11.25 cm along and 7 cm up would be 32 degrees aside
    narrow = Hazard((START[0] + 0.075, START[1], START[2]), 0.05, cone=30.0)
    along, up = scene.probe_goal(narrow)
    assert np.rad2deg(np.arctan2(up, along)) <= 30
    assert narrow.distance(START + np.array([along, 0.0, up])) >= 0.02 - 1e-4
    for hazard in (AHEAD, HAZARD):  # the straight way leads through the sphere
        goal = scene.probe_goal(hazard) @ scene.slice_axes(hazard)
        assert hazard.distance(START + np.linspace(0, 1, 200)[:, None] * goal).min() < 0


@pytest.mark.parametrize("hazard", HAZARDS)
def test_the_probe(hazard: Hazard) -> None:
    probe, basis = scene.probe(hazard), scene.slice_axes(hazard)
    assert probe.obs.shape == (41, 41, 16)
    assert probe.obs.dtype == np.float32
    goal = probe.obs[0, 0, GOAL]
    assert (probe.obs[..., GOAL] == goal).all()
    assert (np.abs(goal - START) <= 0.15 + 1e-6).all()
    assert hazard.distance(goal) >= hazard.clearance - 1e-4
    line = START + np.linspace(0, 1, 200)[:, None] * (goal - START)
    assert (hazard.distance(line) < 0).any()  # the straight way is barred
    assert (probe.obs[..., GRIPPER] == probe.obs[..., ACHIEVED]).all()
    assert not probe.obs[..., 3:10].any()
    row, column = 25, 30
    expected = START + probe.x[column] * basis[0] + probe.y[row] * basis[1]
    assert probe.obs[row, column, GRIPPER] == pytest.approx(expected, abs=1e-6)
    centre = (np.array(hazard.centre) - START) @ basis.T
    for place, room in ((centre, hazard.radius), ((goal - START) @ basis.T, 0.01), (np.zeros(2), 0.1)):
        assert (place - room > [probe.x[0], probe.y[0]]).all()
        assert (place + room < [probe.x[-1], probe.y[-1]]).all()
    assert hazard.gripper_distance(probe.obs).min() < 0


@pytest.mark.parametrize("hazard", HAZARDS)
def test_the_probe_draws_hazard_start_and_goal(hazard: Hazard) -> None:
    probe = scene.probe(hazard)
    axes = Figure().add_subplot()
    probe.draw(axes)
    (circle,) = [p for p in axes.patches if isinstance(p, Circle)]
    assert not circle.get_fill()
    inside = (
        np.hypot(probe.x[None, :] - circle.center[0], probe.y[:, None] - circle.center[1]) < circle.radius
    )
    away = np.abs(hazard.gripper_distance(probe.obs)) > 1e-6
    assert (inside == (hazard.gripper_distance(probe.obs) < 0))[away].all()
    places = [line.get_xydata()[0].tolist() for line in axes.lines]
    assert places == [[0, 0], scene.probe_goal(hazard).tolist()]


def test_arrows_are_displacements_on_the_slice() -> None:
    assert scene.probe(LARGE).arrow is not None
    action = np.array([[0.0, -1.0, 0.3, 1.0], [0.5, 0.0, 0.0, -1.0]])
    assert scene.probe(LARGE).arrow(action) == pytest.approx(np.array([[0.05, 0.015], [0, 0]]))
    assert scene.probe(ABOVE).arrow(action) == pytest.approx(np.array([[0.015, -0.05], [0, 0]]))


def test_a_hazard_without_room_for_a_goal() -> None:
    with pytest.raises(RciError, match="no room for a goal"):
        scene.probe(Hazard(AHEAD.centre, AHEAD.radius, clearance=0.6))

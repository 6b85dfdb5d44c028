"""The paper's figures of samples, from arrays made up by hand."""

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.quiver import Quiver

from rci.data.errors import RciError
from rci.data.types import Episode, Episodes, Labels, StepCosts
from rci.reporting.comparison.results import VariantResult
from rci.reporting.figures.picture import Picture
from rci.reporting.paper.samples import criteria as paper_criteria
from rci.reporting.paper.samples import drives as paper_samples
from rci.reporting.paper.samples import localisation as paper_localisation
from rci.reporting.paper.samples import maps as paper_maps
from rci.reporting.paper.samples import trajectories as paper_trajectories
from rci.reporting.run.contents import CriticMap, FieldMap
from rci.tasks.fetch_reach.hazard import HAZARD, START
from rci.tasks.fetch_reach.scene import PROBE_POINTS
from rci.tasks.highway.scene import PROBE_SHAPE

STEPS = 30


def drive(speed: float = 0.25, nearest: float = 0.8, closing: float = 0.02, steps: int = STEPS) -> Episode:
    """Straight ahead in the second lane at 80 * speed m/s, ever nearer to a car in the same lane."""
    obs = np.zeros((steps + 1, 5, 7), np.float32)
    obs[:, :, (0, 5)] = 1.0
    obs[:, 0, 1:4] = 1.0, 0.25, speed
    obs[:, 1:, 1] = 0.9
    obs[:, 1, 1] = nearest - closing * np.arange(steps + 1)
    return Episode(obs, np.zeros((steps, 2), np.float32), np.full(steps, 4 * speed), False, True)


def drives(count: int = 6, steps: int = STEPS) -> Episodes:
    """Half of them come too close on their way."""
    kinds = [drive(closing=0.03 + 0.005 * (i // 2) if i % 2 == 0 else 0.0, steps=steps) for i in range(count)]
    return Episodes.from_list(kinds, task="highway")


def stops(episodes: Episodes) -> Labels:
    """Stopped at the first observation within 0.2."""
    near = [episode.obs[1:, 1, 1] <= 0.2 for episode in episodes]
    return Labels.for_episodes(episodes, [int(n.argmax()) if n.any() else -1 for n in near])


def even_costs(labels: Labels, name: str = "rci") -> StepCosts:
    cost = np.repeat(labels.cost / labels.kept_lengths, labels.kept_lengths)
    return StepCosts(cost, labels.kept_lengths, labels.cost, True, name, labels.hash)


def critic(method: str, low: float, high: float) -> CriticMap:
    return CriticMap(method, "P10", np.linspace(low, high, np.prod(PROBE_SHAPE)).reshape(PROBE_SHAPE))


def field(budget: str) -> FieldMap:
    shape = (PROBE_POINTS, PROBE_POINTS)
    value = np.linspace(-1.0, 1.0, PROBE_POINTS**2).reshape(shape)
    return FieldMap("rci", budget, np.broadcast_to([0.03, 0.0], (*shape, 2)), value)


def result(variant: str, half_width: float | None = 0.1, **means: float) -> VariantResult:
    values = {name: (mean, mean) for name, mean in means.items()}
    return VariantResult(variant, variant, True, 2, values, dict.fromkeys(means, half_width))


def check_rendered(picture: Picture, name: str) -> None:
    assert picture.name == name
    assert picture.svg.startswith(b"<?xml")
    assert picture.png.startswith(b"\x89PNG")
    assert picture.alt
    assert picture.caption


def test_heatmaps_tell_ranges_and_whether_colours_are_shared() -> None:
    picture = paper_maps.heatmaps([critic("sparse", 0.0, 1.0), critic("rci", -0.5, 0.5)])
    check_rendered(picture, "heatmaps")
    assert "sparse at budget P10, from 0 to 1.00; rci at budget P10, from −0.500 to 0.500" in picture.alt
    assert "share one scale" in picture.caption
    figure = paper_maps._heatmap_figure([critic("sparse", 0.0, 1.0), critic("hazard", 0.0, 40.0)])
    maps = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in maps] == ["sparse, budget P10", "hazard, budget P10"]
    assert [axes.get_title(loc="right") for axes in maps] == ["0 to 1.00", "0 to 40.0"]
    keys = [axes for axes in figure.axes if any(isinstance(part, QuadMesh) for part in axes.collections)]
    assert len(keys) == 2  # ranges that differ too much have a key each
    assert "its own scale" in paper_maps._scale([critic("sparse", 0.0, 1.0), critic("hazard", 0.0, 40.0)])


def test_the_ego_of_the_heatmaps_is_drawn_where_it_is_safe() -> None:
    from rci.tasks.highway.scene import EGO_SPEED, PROBE_CARS, PROBE_SPEED, observe
    from rci.tasks.highway.task import too_close

    cars = np.array(PROBE_CARS) * [1.0, 4.0]
    assert not too_close(observe(np.array(paper_maps.EGO_PLACE), cars, EGO_SPEED, PROBE_SPEED))


def test_heatmaps_need_a_critic() -> None:
    with pytest.raises(RciError, match="at least one"):
        paper_maps.heatmaps([])


def test_vector_fields_are_two_by_two_with_the_workbench_first() -> None:
    maps = [field("P50"), field("P30"), field("P10")]
    figure = paper_maps._field_figure(maps, np.zeros((8, 8, 3), np.uint8))
    titles = [axes.get_title() for axes in figure.axes[:4]]
    assert titles == [
        "(a) workbench", "(b) permissive, budget P50", "(c) balanced, budget P30", "(d) restrictive, budget P10",
    ]  # fmt: skip
    corners = [axes.get_position().p0 for axes in figure.axes[:4]]
    assert corners[0][0] == corners[2][0] < corners[1][0] == corners[3][0]
    assert corners[0][1] == corners[1][1] > corners[2][1] == corners[3][1]
    arrows = [sum(isinstance(part, Quiver) for part in axes.collections) for axes in figure.axes[:4]]
    assert arrows == [0, 1, 1, 1]


def test_without_a_picture_the_workbench_is_drawn_plainly_and_said_to_be() -> None:
    picture = paper_maps.vector_fields([field("P50"), field("P30"), field("P10")], None)
    check_rendered(picture, "vector-fields")
    assert "without its arm" in picture.caption
    with pytest.raises(RciError, match="3 budgets, got 1"):
        paper_maps.vector_fields([field("P50")], None)


def test_sampled_drives_are_two_stopped_and_a_safe_one() -> None:
    labels = stops(drives(12))
    picked = paper_samples.draw_episodes(labels, 0)
    assert labels.stopped[picked].tolist() == [True, True, False]
    assert labels.kept_lengths[picked[0]] <= labels.kept_lengths[picked[1]]
    assert (labels.kept_lengths[picked] >= paper_samples.SHORTEST).all()
    assert picked == paper_samples.draw_episodes(labels, 0)
    assert len({tuple(paper_samples.draw_episodes(labels, seed)) for seed in range(10)}) > 1


def test_too_few_drives_to_sample_from_are_an_error() -> None:
    with pytest.raises(
        RciError, match="of the stopped episodes 1 have at least 10 steps, but the sample needs 2"
    ):
        paper_samples.draw_episodes(stops(drives(2)), 0)
    with pytest.raises(RciError, match="of the safe episodes 0 have"):
        paper_samples.draw_episodes(stops(Episodes.from_list([*[drive(closing=0.03)] * 3])), 0)


def test_redistribution_samples() -> None:
    episodes = drives()
    labels = stops(episodes)
    costs = {"rci": even_costs(labels), "rci-literal": even_costs(labels, "rci-literal")}
    picture = paper_samples.redistribution_samples(episodes, labels, costs)
    check_rendered(picture, "redistribution-samples")
    assert "rci 1.00, 1.00, 0.00; rci-literal 1.00, 1.00, 0.00" in picture.alt
    with pytest.raises(RciError, match="another dataset"):
        paper_samples.redistribution_samples(drives(4), labels, costs)


def test_the_way_is_the_integral_of_the_speed() -> None:
    obs = drive(speed=0.25, steps=10).obs  # 20 m/s
    np.testing.assert_allclose(paper_trajectories.driven(obs, 0.2), 4.0 * np.arange(11), rtol=1e-6)
    obs = obs.copy()
    obs[:, 0, 3] = np.linspace(0.0, 0.25, 11)  # evenly faster, up to 20 m/s after 2 s
    assert paper_trajectories.driven(obs, 0.2)[-1] == pytest.approx(20.0, rel=1e-6)


def test_the_start_that_is_shown_has_ordinary_returns() -> None:
    def recorded(*speeds: float) -> Episodes:
        return Episodes.from_list([drive(speed, steps=3) for speed in speeds])

    tight, loose = recorded(0.1, 0.3, 0.2), recorded(0.5, 0.3, 0.4)
    assert paper_trajectories.ordinary_start([tight]) == 2
    assert paper_trajectories.ordinary_start([tight, loose]) == 2
    with pytest.raises(RciError, match="equally many"):
        paper_trajectories.ordinary_start([tight, recorded(0.1)])


def test_trajectories_under_two_budgets() -> None:
    rollouts = {
        "P10": Episodes.from_list([drive(closing=0.0)]),
        "P30": Episodes.from_list([drive(0.35, closing=0.0203)]),
    }
    picture = paper_trajectories.budget_trajectories(rollouts)
    check_rendered(picture, "budget-trajectories")
    assert "P10, return 30.0, no unsafe steps; P30, return 42.0, 1 unsafe step." in picture.alt
    assert "from different starts" in picture.caption  # their speeds differ
    with pytest.raises(RciError, match="two budgets, got 1"):
        paper_trajectories.budget_trajectories({"P10": rollouts["P10"]})


def test_columns_of_trajectories_share_their_scales() -> None:
    figure = paper_trajectories._figure({"P10": drive(closing=0.0), "P30": drive(0.35, steps=20)})
    for name in paper_trajectories.NAMES:
        left = next(axes for axes in figure.axes if axes.get_ylabel() == name)
        [right] = [a for a in figure.axes if a is not left and a.get_position().y0 == left.get_position().y0]
        assert left.get_ylim() == right.get_ylim()
        assert left.get_xlim() == right.get_xlim() == (0, STEPS)


def test_unsafe_criteria() -> None:
    picture = paper_criteria.unsafe_criteria(None)
    check_rendered(picture, "unsafe-criteria")
    assert "40 m ahead and 3.2 m sideways" in picture.caption
    assert "radius is 4 cm" in picture.caption


def test_goals_are_drawn_by_the_rule_of_the_task() -> None:
    goals = paper_criteria.sample_goals(60, 0)
    assert goals.shape == (60, 3)
    assert not HAZARD.refuses(goals).any()
    np.testing.assert_array_equal(goals, paper_criteria.sample_goals(60, 0))


def test_turning_into_the_slice_keeps_distances() -> None:
    places = paper_criteria.sample_goals(60, 1)
    turned, centre = (paper_criteria.turned_into_slice(p) for p in (places, np.array(HAZARD.centre)))
    np.testing.assert_allclose(centre[1], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(places - START, axis=-1))
    away = np.linalg.norm(turned - centre, axis=-1) - HAZARD.radius
    np.testing.assert_allclose(away, HAZARD.distance(places), atol=1e-9)
    assert {-1.0, 1.0} == set(np.sign(turned[:, 1]))


def test_localisation_shows_the_exact_risk_where_it_is_known() -> None:
    comparisons = {
        "point": [
            result("rudder", rise_correlation=0.3, risk_correlation=0.4, time_correlation=0.2),
            result("oracle", None, rise_correlation=1.0, risk_correlation=0.4, time_correlation=0.1),
        ],
        "highway": [result("rudder", half_width=1.2, time_correlation=-0.3)],
    }
    shown = paper_localisation.panels(comparisons)
    assert shown == [
        ("point", "rise_correlation"), ("point", "risk_correlation"), ("highway", "time_correlation"),
    ]  # fmt: skip
    picture = paper_localisation.localisation(comparisons)
    check_rendered(picture, "localisation")
    assert "highway, time to violation: rudder −0.300" in picture.alt
    figure = paper_localisation._figure(comparisons, shown)
    assert [len(axes.patches) for axes in figure.axes] == [2, 2, 1]
    assert figure.axes[2].get_xlim()[0] >= -1.06  # though its interval is wider


def test_localisation_needs_correlations() -> None:
    with pytest.raises(RciError, match="at least one task"):
        paper_localisation.localisation({})
    with pytest.raises(RciError, match="'point' holds no rank correlation"):
        paper_localisation.localisation({"point": [result("rudder", seconds=3.0)]})

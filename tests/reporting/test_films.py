"""Film strips, maps of critics and the demonstrators' curve, on observations that are arrays."""

import json
import math
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import rci.tasks
from rci.data.types import Episode, Episodes, Labels, Oracle, Scores, StepCosts
from rci.reporting.figures import films as film_figures
from rci.reporting.figures import maps as critic_figures
from rci.reporting.figures import maps as map_figures
from rci.reporting.figures import recorded as dataset_figures
from rci.reporting.figures.palette import LOOKS
from rci.reporting.run import page, task_pictures
from rci.reporting.run import pictures as pictures
from rci.reporting.run.contents import CriticMap, MethodResult, ReportInput
from rci.reporting.run.page import write_report
from rci.reporting.run.rows import result_rows
from rci.tasks.base import Probe

STEPS = 20
DEMONSTRATORS = {
    "task": "lane",
    "seed": 0,
    "curve": {
        "steps": [1000, 2000, 3000],
        "return": [1.0, 3.0, 4.0],
        "length": [9.0, 10.0, 10.0],
        "violation_rate": [0.5, 0.7, 0.9],
    },
    "checkpoints": [{"steps": 1500, "return": 2.0}, {"steps": 3000, "return": None}],
}


def distance(obs: np.ndarray) -> np.ndarray:
    return np.abs(obs[..., 0, 0])


def draw_scene(axes, obs: np.ndarray) -> None:
    """Upright, and remembers what it drew."""
    axes.set(xlim=(0, 1), ylim=(0, 5), aspect="equal")
    axes.plot(0.5, obs[0, 0], "o")


def probe() -> Probe:
    obs = np.zeros((3, 4, 2, 3))
    obs[..., 0, 0] = [0.1, 0.3, 0.5, 0.7]
    return Probe(
        obs, np.arange(4.0), np.arange(3.0), "x", "y", lambda axes: axes.set(xlim=(0, 3), ylim=(0, 2))
    )


@pytest.fixture(autouse=True)
def lane(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A task with a scene and a probe, without paths; observations are [2, 3]."""
    task = SimpleNamespace(
        views=(), space=None, scene=draw_scene, probe=probe, distance=distance, danger_distance=0.2,
        unsafe=lambda obs: distance(obs) <= 0.2, step_seconds=0.5,
    )  # fmt: skip
    monkeypatch.setitem(rci.tasks.TASKS, "lane", task)  # type: ignore[arg-type]
    return task


def drives(count: int = 4) -> Episodes:
    """Every drive comes nearer at its own speed; the last one never gets there."""
    episodes = []
    for i in range(count):
        obs = np.zeros((STEPS + 1, 2, 3), np.float32)
        obs[:, 0, 0] = 1.0 - np.arange(STEPS + 1) * (0.0 if i == count - 1 else 0.05 + 0.02 * i)
        episodes.append(Episode(obs, np.zeros((STEPS, 1), np.float32), np.full(STEPS, 0.5), False, True))
    return Episodes.from_list(episodes, task="lane")


@pytest.fixture
def report() -> ReportInput:
    episodes = drives()
    after = episodes.obs[episodes.next_rows]
    oracle = Oracle(distance(after) <= 0.2, distance(after), episodes.lengths, episodes.hash)
    labels = Labels.for_episodes(episodes, oracle.first_unsafe())
    kept = labels.kept_lengths
    sparse = np.zeros(kept.sum())
    sparse[np.cumsum(kept) - 1] = labels.cost
    even = np.repeat(labels.cost / kept, kept)
    scores = (Scores(np.ones(50), np.ones(50), np.full(50, -1), np.full(50, STEPS)),)
    return ReportInput(
        task="lane",
        title="Lane",
        settings={},
        command="rci run lane",
        versions={},
        timings={},
        episodes=episodes,
        oracle=oracle,
        labels=labels,
        costs={
            "rci": StepCosts(even, kept, labels.cost, True, "rudder", labels.hash),
            "sparse": StepCosts(sparse, kept, labels.cost, True, "sparse", labels.hash),
        },
        risk=None,
        results=tuple(
            MethodResult(method, budget, scores, (0.0, 0.1), drives())
            for method, budget in (("rci", 0.2), ("rci", 0.05), ("reward-only", math.inf))
        ),
        critic_maps=(
            CriticMap("rci", "0.05", np.linspace(0.0, 1.0, 12).reshape(3, 4)),
            CriticMap("reward-only", "inf", np.linspace(0.2, 0.8, 12).reshape(3, 4)),
        ),
        demonstrators=DEMONSTRATORS,
    )


@pytest.mark.parametrize(
    ("last", "stride", "marked", "expected"),
    [
        (4, 1, [], [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]),
        (8, 4, [8], [(0, 0), (1, 4), (2, 8)]),
        (9, 4, [], [(0, 0), (1, 4), (2, 8), (3, 9)]),  # the last moment has a place of its own
        (9, 4, [3], [(0, 0), (1, 3), (2, 8), (3, 9)]),
        (9, 4, [6], [(0, 0), (1, 4), (2, 6), (3, 9)]),
        (1, 1, [1], [(0, 0), (1, 1)]),
        (9, 4, [8], [(0, 0), (1, 4), (2, 8), (3, 9)]),
        (10, 8, [9], [(0, 0), (1, 9), (2, 10)]),  # the last moment keeps its place
    ],
)
def test_frames_by_hand(last: int, stride: int, marked: list[int], expected: list[tuple[int, int]]) -> None:
    assert film_figures.frame_moments(last, stride, marked) == expected


@pytest.mark.parametrize("last", [1, 7, 13, 14, 40, 99, 100])
def test_frames_are_in_order_and_hold_what_was_marked(last: int) -> None:
    for stride in (1, 3, 8):
        for first_unsafe in range(1, last + 1):
            frames = film_figures.frame_moments(last, stride, [first_unsafe])
            places, moments = zip(*frames)
            assert first_unsafe in moments
            assert list(moments) == sorted(set(moments))
            assert max(places) <= -(-last // stride)


def film_of(report: ReportInput, episode: int = 0) -> film_figures.Film:
    steps = int(report.labels.kept_lengths[episode])
    begin = int(report.episodes.step_offset[episode])
    unsafe = np.append(False, report.oracle.unsafe[begin : begin + steps])
    obs = report.episodes[episode].obs[: steps + 1]
    return film_figures.Film("A title", obs, steps, draw_scene, unsafe, 0.5, steps)


def test_costs_stand_under_the_moments_that_they_belong_to(report: ReportInput) -> None:
    film = film_of(report)
    assert film.last == 16  # 1 - 16 * 0.05 = 0.2
    costs = {name: report.costs[name].per_episode()[0] for name in ("sparse", "rci")}
    figure = film_figures.cost_film(film, costs, LOOKS, 1.0, report.oracle.distance[:16], 0.2)
    heat, curve, *frames = figure.axes[:11]
    [image] = heat.images
    np.testing.assert_array_equal(image.get_array()[0], [0.0] * 15 + [1.0])
    np.testing.assert_allclose(image.get_array()[1], 1 / 16)
    assert image.get_extent() == [0, 16, 2, 0]
    assert heat.get_xlim() == curve.get_xlim() == (0, 16)
    texts = [text.get_text() for text in heat.texts]
    assert texts == ["sparse", "1.00", "rci", "1.00", "sum"]
    np.testing.assert_array_equal(curve.lines[0].get_xdata(), np.arange(1, 17))
    # Frames every other moment, each centred over its own.
    drawn = [axes.lines[0].get_ydata()[0] for axes in frames]
    np.testing.assert_allclose(drawn, film.obs[::2, 0, 0])
    for moment, axes in zip(range(0, 17, 2), frames):
        x = curve.transData.transform((moment, 0))[0]
        box = axes.get_window_extent()
        assert (box.x0 + box.x1) / 2 == pytest.approx(x, abs=0.5)


def test_the_unsafe_frame_and_the_clock_are_written_out(report: ReportInput) -> None:
    film = film_of(report)
    figure = film_figures.cost_film(film, {}, LOOKS, 1.0, report.oracle.distance[:16], 0.2)
    texts = {text.get_text() for text in figure.texts}
    assert {"A title", "0.0 s", "1.0 s", "8.0 s", "stop"} <= texts
    assert "unsafe up to 0.2" in [text.get_text() for text in figure.axes[0].texts]
    steps = film_figures.cost_film(
        film._replace(seconds=None, stop=None), {}, LOOKS, 1.0, report.oracle.distance[:16], 0.2
    )
    assert {"step 0", "step 2", "step 16", "unsafe"} <= {text.get_text() for text in steps.texts}
    assert steps.axes[0].get_xlabel() == "step"
    assert film._replace(seconds=0.04).clock(1) == "0.04 s"


def test_small_costs_keep_their_sign_and_are_seen() -> None:
    root = film_figures._signed_root(np.array([-0.25, 0.0, 0.01]))
    assert root == pytest.approx([-0.5, 0.0, 0.1])
    assert film_figures._signed_square(root) == pytest.approx([-0.25, 0.0, 0.01])
    assert film_figures.cost_limit([np.array([0.1, -0.4]), np.array([0.2])]) == 0.4
    assert film_figures.cost_limit([np.zeros(3)]) == film_figures.cost_limit([]) == 1.0


def test_sums_have_no_sign_where_they_are_nothing() -> None:
    assert [film_figures.total(np.array(cost)) for cost in ([0.3, -0.3 - 1e-9], [0.25, 0.5], [-0.5])] == [
        "0.00",
        "0.75",
        "−0.50",
    ]


@pytest.mark.parametrize("shape", [(1, 5), (1, 1), (6, 1)])
def test_drawings_of_any_shape_fit(report: ReportInput, shape: tuple[float, float]) -> None:
    def scene(axes, obs) -> None:
        axes.set(xlim=(0, shape[0]), ylim=(0, shape[1]), aspect="equal")

    assert film_figures.frame_ratio(scene, np.zeros(2)) == pytest.approx(shape[1] / shape[0])
    figure = film_figures.cost_film(
        film_of(report)._replace(scene=scene), {}, LOOKS, 1.0, report.oracle.distance[:16], 0.2
    )
    assert 1.5 < figure.get_figheight() < 6.0


def test_films_show_the_sampled_episodes_and_one_rollout_per_method(report: ReportInput) -> None:
    films = task_pictures.film_pictures(report)
    assert [film.name for film in films] == ["film-1", "film-2", "film-3"]
    assert "stopped after 9 steps, 4.5 s" in " ".join(film.alt for film in films)
    assert "rci sums to 1.00" in films[0].alt
    rollouts = task_pictures.policy_film_pictures(report)
    assert [film.name for film in rollouts] == ["rollout-01-reward-only", "rollout-02-rci"]
    assert "rci, budget 0.05: return 10.0, unsafe at 8.0 s" in rollouts[1].alt
    assert len(films[0].svg) < 150_000


def test_a_task_without_a_scene_or_a_probe_has_neither(report: ReportInput, lane: SimpleNamespace) -> None:
    lane.scene = lane.probe = None
    for build in (
        task_pictures.film_pictures,
        task_pictures.policy_film_pictures,
        task_pictures.critic_pictures,
    ):
        assert build(report) == build(replace(report, task="of-a-user")) == []
    source = page.page(report, defaultdict(list))
    assert "Where the critics see cost" not in source
    assert "Where the policies go" not in source


def test_maps_share_their_colours_unless_one_would_be_blank(report: ReportInput) -> None:
    maps = list(report.critic_maps)
    assert map_figures.share_colours(maps)
    assert "share one range" in task_pictures.critic_pictures(report)[0].caption
    faint = CriticMap("sparse", "0.05", np.linspace(0.0, 0.1, 12).reshape(3, 4))
    assert not map_figures.share_colours([*maps, faint])
    assert (
        "its own colours"
        in task_pictures.critic_pictures(replace(report, critic_maps=(*maps, faint)))[0].caption
    )
    flat = CriticMap("sparse", "0.05", np.full((3, 4), 0.5))
    assert task_pictures.critic_pictures(replace(report, critic_maps=(flat,)))


def test_maps_are_drawn_where_their_points_are(report: ReportInput) -> None:
    maps, points = report.critic_maps, probe()
    figure = critic_figures.critic_maps(maps, points, LOOKS, distance(points.obs), 0.2)
    first, second, key = figure.axes
    assert first.images[0].get_extent() == [-0.5, 3.5, -0.5, 2.5]
    assert first.images[0].origin == "lower"
    assert first.images[0].norm.vmax == second.images[0].norm.vmax == 1.0
    assert (first.get_title(), second.get_title()) == ("rci, budget 0.05", "reward-only")
    [line] = [c for c in first.collections if len(c.get_paths()[0].vertices)]
    np.testing.assert_allclose(line.get_paths()[0].vertices[:, 0], 0.5)  # half way from 0.1 to 0.3
    assert key.get_ylim() == (0.0, 1.0)


def test_the_demonstrators_curve_marks_its_checkpoints(report: ReportInput) -> None:
    figure = dataset_figures.training_curve(DEMONSTRATORS)
    upper, lower = figure.axes
    np.testing.assert_allclose(upper.lines[-1].get_xydata(), [[1500, 2.0], [3000, 4.0]])
    np.testing.assert_allclose(lower.lines[-1].get_xydata(), [[1500, 0.6], [3000, 0.9]])
    [picture] = pictures.demonstrator_pictures(report)
    assert "3,000 environment steps: return from 1.00 to 4.00" in picture.alt
    assert pictures.demonstrator_pictures(replace(report, demonstrators=None)) == []
    empty = {**DEMONSTRATORS, "curve": {name: [] for name in DEMONSTRATORS["curve"]}}
    assert pictures.demonstrator_pictures(replace(report, demonstrators=empty)) == []


def test_the_page_of_a_task_with_scenes(report: ReportInput, tmp_path: Path) -> None:
    source = write_report(report, tmp_path).read_text(encoding="utf-8")
    for title in ("Where the policies go", "Where the critics see cost", "Where the cost went"):
        assert f">{title}</h2>" in source
    assert source.count('class="strip"') == 3 + 2 + 1
    assert "A dot is the start" not in source
    alts = re.findall(r'alt="([^"]*)"', source)
    assert all(len(alt) > 20 for alt in alts)
    numbers = json.loads((tmp_path / "summary.json").read_text())
    assert numbers["critics"][0] == {"method": "rci", "budget": "0.05", "lowest": 0.0, "highest": 1.0}
    assert numbers["demonstrators"]["checkpoints"][0]["steps"] == 1500
    assert {"figures/critics.svg", "figures/film-1.png", "figures/demonstrators.svg"} <= set(
        numbers["figures"]
    )


def test_tasks_with_three_dimensions_show_them(report: ReportInput, lane: SimpleNamespace) -> None:
    assert task_pictures.space_pictures(report) == []
    drawn = []

    def space(episodes) -> Figure:
        drawn.append([obs.shape for obs in episodes])
        return Figure(figsize=(1, 1))

    lane.space = space
    pictures = task_pictures.space_pictures(report)
    methods = {row.method for row in result_rows(report)}
    assert len(pictures) == len(drawn) == len(methods)
    assert drawn[0] == [episode.obs.shape for episode in report.results[0].rollouts]
    assert pictures[0].name.startswith("space-01-")

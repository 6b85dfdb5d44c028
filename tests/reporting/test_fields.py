"""Vector fields of policies over a world of two by one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.quiver import Quiver

import rci.tasks
from rci.data.types import Episode, Episodes, Labels, Oracle, StepCosts
from rci.reporting.figures import maps as field_figures
from rci.reporting.figures import maps as map_figures
from rci.reporting.figures.palette import LOOKS
from rci.reporting.run import task_pictures
from rci.reporting.run.contents import FieldMap, ReportInput
from rci.reporting.run.page import write_report
from rci.tasks.base import Probe

COLUMNS, ROWS = 41, 21
RIGHTWARDS = np.broadcast_to([0.5, 0.0], (ROWS, COLUMNS, 2))


def probe() -> Probe:
    x, y = np.linspace(0, 2, COLUMNS), np.linspace(0, 1, ROWS)
    return Probe(
        np.stack(np.meshgrid(x, y), -1), x, y, "across", "up",
        lambda axes: axes.set(xlim=(0, 2), ylim=(0, 1), aspect="equal"), arrow=lambda action: action,
    )  # fmt: skip


def distance(obs: np.ndarray) -> np.ndarray:
    return np.abs(obs[..., 0] - 1.0)


def field(budget: str, arrow: np.ndarray = RIGHTWARDS, low: float = 0.0, high: float = 1.0) -> FieldMap:
    method = "reward-only" if budget == "inf" else "rci"
    return FieldMap(method, budget, arrow, np.linspace(low, high, ROWS * COLUMNS).reshape(ROWS, COLUMNS))


def arrows_of(maps: list[FieldMap]) -> list[Quiver]:
    points = probe()
    figure = field_figures.vector_fields(maps, points, LOOKS, distance(points.obs), 0.2)
    return [part for axes in figure.axes for part in axes.collections if isinstance(part, Quiver)]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ReportInput:
    task = SimpleNamespace(
        views=(), space=None, scene=None, probe=probe, distance=distance, danger_distance=0.2
    )
    monkeypatch.setitem(rci.tasks.TASKS, "plane", task)  # type: ignore[arg-type]
    episodes = Episodes.from_list([Episode(np.zeros((3, 2)), np.zeros((2, 2)), np.ones(2), False, True)])
    labels = Labels.for_episodes(episodes, [1])
    return ReportInput(
        task="plane",
        title="Plane",
        settings={},
        command="rci run plane",
        versions={},
        timings={},
        episodes=episodes,
        oracle=Oracle([False, True], np.ones(2), episodes.lengths, episodes.hash),
        labels=labels,
        costs={
            name: StepCosts([0.0, 1.0], labels.kept_lengths, labels.cost, True, name, labels.hash)
            for name in ("rci", "reward-only")
        },
        risk=None,
        results=(),
        field_maps=(field("inf"), field("0.2"), field("0.05")),
    )


@pytest.mark.parametrize("points", [2, 12, 20, 21, 56, 100, 401])
def test_arrows_are_few_and_evenly_spaced(points: int) -> None:
    x, y = np.linspace(-1, 1, points), np.linspace(0, 1, points)
    rows, columns, cell = field_figures.arrow_places(x, y)
    assert min(points, 10) <= len(columns) <= 20
    assert abs((columns[0] + columns[-1]) - (points - 1)) <= 1  # as much room to the left as to the right
    across = np.diff(x[columns])
    assert cell <= across.min() + 1e-9
    if len(rows) > 1:
        assert 0.5 <= np.diff(y[rows]).min() / across.min() <= 1.5


def test_places_of_the_arrows_by_hand() -> None:
    rows, columns, cell = field_figures.arrow_places(np.arange(56) * 2.0 - 55, np.arange(36) * 2.0 - 35)
    assert (columns[0], columns[1], columns[-1], len(columns)) == (2, 5, 53, 18)
    assert (rows[0], rows[-1], len(rows)) == (1, 34, 12)
    assert cell == 6.0
    tall_rows, tall_columns, _ = field_figures.arrow_places(np.arange(36) * 2.0, np.arange(56) * 2.0)
    assert tall_rows.tolist() == columns.tolist()
    assert tall_columns.tolist() == rows.tolist()


def test_all_fields_have_one_scale_and_the_longest_arrow_fits_its_cell() -> None:
    strong = RIGHTWARDS.copy()
    strong[...] = [0.0, -2.0]
    first, second = arrows_of([field("0.2"), field("0.05", strong)])
    _, _, cell = field_figures.arrow_places(probe().x, probe().y)
    assert first.scale == second.scale
    assert 0.8 * cell < 2.0 / second.scale < cell
    np.testing.assert_allclose(first.U, 0.5)
    np.testing.assert_allclose(second.V, -2.0)


def test_arrows_and_colours_are_those_of_their_point() -> None:
    points = probe()
    [quiver] = arrows_of([field("0.05", points.obs)])  # every arrow says where it is
    np.testing.assert_allclose(quiver.U, quiver.XY[:, 0])
    np.testing.assert_allclose(quiver.V, quiver.XY[:, 1])


@pytest.mark.parametrize(
    "maps",
    [
        [field("0.05")],
        [field("inf", np.zeros((ROWS, COLUMNS, 2)))],
        [field("0.05", low=0.5, high=0.5)],
        [field("0.3", np.zeros((ROWS, COLUMNS, 2)), -0.0, 0.0), field("P30", low=-40.0, high=2.0)],
    ],
)
def test_degenerate_fields_can_be_drawn(report: ReportInput, maps: list[FieldMap]) -> None:
    [picture] = task_pictures.field_pictures(replace(report, field_maps=tuple(maps)))
    assert picture.svg.startswith(b"<?xml")
    assert all(np.isfinite(quiver.scale) for quiver in arrows_of(maps))


@pytest.mark.parametrize(
    ("maps", "ratio", "columns"),
    [(1, 0.6, 1), (3, 0.6, 3), (4, 0.6, 2), (5, 1.0, 3), (7, 1.0, 3), (4, 0.2, 1)],
)
def test_rows_of_maps_are_about_equally_full(maps: int, ratio: float, columns: int) -> None:
    assert map_figures.map_columns(maps, ratio) == columns


def test_the_words_with_the_picture(report: ReportInput) -> None:
    [picture] = task_pictures.field_pictures(report)
    assert "reward-only, values from 0 to 1.00; rci at budget 0.2, values" in picture.alt
    assert "Arrows: where the action" in picture.caption
    assert "share one range" in picture.caption
    [alone] = task_pictures.field_pictures(replace(report, field_maps=(field("0.05"),)))
    assert "share" not in alone.caption
    apart = replace(report, field_maps=(field("inf"), field("0.05", low=-30.0)))
    assert "its own colours" in task_pictures.field_pictures(apart)[0].caption


def test_a_task_without_arrows_has_no_fields(report: ReportInput) -> None:
    for other in (replace(report, field_maps=()), replace(report, task="of-a-user")):
        assert task_pictures.field_pictures(other) == []


def test_the_page_shows_the_fields(report: ReportInput, tmp_path: Path) -> None:
    source = write_report(report, tmp_path / "with").read_text(encoding="utf-8")
    assert ">Where the policies push</h2>" in source
    assert (tmp_path / "with" / "figures" / "vector-fields.png").is_file()
    without = write_report(replace(report, field_maps=()), tmp_path / "without").read_text(encoding="utf-8")
    assert "Where the policies push" not in without

import math

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from rci.data.types import Episode, Episodes, Labels, Oracle, StepCosts
from rci.reporting.figures import episodes as redistribution_figures
from rci.reporting.figures import outcomes as outcome_figures
from rci.reporting.figures import recorded as dataset_figures
from rci.reporting.figures.palette import INK, KNOWN, LOOKS, OTHERS, WORTH, looks
from rci.reporting.figures.picture import render
from rci.reporting.run.contents import KnownDanger, ReportInput
from rci.reporting.run.rows import ResultRow
from rci.tasks.base import View


def row(method: str, budget: float, rate: float = 0.1, mean_return: float = 1.0) -> ResultRow:
    return ResultRow(
        method=method,
        budget=budget,
        asked="none" if math.isinf(budget) else f"{budget:g}",
        threshold=budget,
        seeds=2,
        episodes=200,
        violation_rate=rate,
        violation_low=0.5 * rate,
        violation_high=rate + 0.05,
        budget_kept="",
        mean_return=mean_return,
        return_error=0.1,
        return_until_violation=0.9,
        until_violation_error=0.1,
        multiplier=1.0,
        seed_violation_rates=(rate, rate),
        seed_returns=(mean_return - 0.1, mean_return + 0.1),
        contrast=None,
    )


ROWS = [
    row("reward-only", math.inf, 0.6, 2.0),
    row("sparse", 0.1, 0.3),
    row("sparse", 0.2, 0.4, 1.5),
    row("rci", 0.1, 0.08, 1.2),
    row("rci", 0.2, 0.15, 1.7),
]
STYLE = looks(r.method for r in ROWS)


def report_of(stops: list[int], steps: int = 6, risk: bool = False) -> ReportInput:
    """Episodes of `steps` steps with given stop indices; the method rci spreads the cost evenly."""
    rng = np.random.default_rng(0)
    episodes = Episodes.from_list(
        [
            Episode(rng.normal(size=(steps + 1, 2)), rng.normal(size=(steps, 1)), np.ones(steps), False, True)
            for _ in stops
        ]
    )
    labels = Labels.for_episodes(episodes, stops)
    kept = labels.kept_lengths
    unsafe = np.zeros((len(stops), steps), bool)
    for i, stop in enumerate(stops):
        if stop >= 0:
            unsafe[i, stop] = True
    cost = np.repeat(labels.cost / kept, kept)
    return ReportInput(
        task="nowhere",
        title="A test",
        settings={},
        command="rci run nowhere",
        versions={},
        timings={},
        episodes=episodes,
        oracle=Oracle(unsafe.ravel(), np.ones(unsafe.size), episodes.lengths, episodes.hash),
        labels=labels,
        costs={"rci": StepCosts(cost, kept, labels.cost, True, "rci", labels.hash)},
        risk=np.linspace(0, 1, kept.sum()) if risk else None,
        results=(),
    )


def draw_flat(axes) -> None:
    """A world twice as wide as high."""
    axes.set(xlim=(0, 2), ylim=(0, 1), aspect="equal")


def texts(figure: Figure) -> list[str]:
    return [text.get_text().strip("\u2007") for axes in figure.axes for text in axes.texts]


def contrast_on_white(color: str | np.ndarray) -> float:
    """Contrast ratio of WCAG 2.1."""
    channel = np.array(to_rgb(color))
    linear = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return float(1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05))


def test_methods_keep_their_look_whoever_stands_beside_them() -> None:
    assert looks(["rci"])["rci"] == looks(["sparse", "rci", "mine"])["rci"] == LOOKS["rci"]
    assert list(looks(["mine", "rci", "reward-only"])) == ["reward-only", "rci", "mine"]


def test_looks_differ_in_colour_and_marker() -> None:
    every = [*LOOKS.values(), *OTHERS]
    assert len({look.color for look in every}) == len(every)
    marks = [look.marker for look in every]
    assert (
        max(marks.count(mark) for mark in marks) <= 2
    )  # there are more methods than marks that one can tell apart
    assert len({look.marker for look in LOOKS.values()}) == len(LOOKS)


@pytest.mark.parametrize("look", [*LOOKS.values(), *OTHERS])
def test_ink_can_be_read_on_white(look) -> None:
    assert contrast_on_white(look.ink) >= 4.5


def test_arrows_can_be_read_on_every_colour_of_their_map() -> None:
    on_white = [contrast_on_white(color) for color in WORTH(np.linspace(0, 1, 9))]
    assert on_white == sorted(on_white)
    assert contrast_on_white(INK) / on_white[-1] >= 4.5


def test_more_unknown_methods_than_looks() -> None:
    names = [f"method-{i}" for i in range(12)]
    assert len(looks(names)) == 12


def test_spread_by_hand() -> None:
    np.testing.assert_allclose(outcome_figures.spread(np.array([0.5, 0.5]), 0.2), [0.4, 0.6])
    np.testing.assert_allclose(
        outcome_figures.spread(np.array([0.9, 0.1, 0.2]), 0.3), [0.9, 0.0, 0.3], atol=1e-12
    )
    np.testing.assert_allclose(outcome_figures.spread(np.array([0.7]), 0.2), [0.7])


def test_rows_stand_together_by_budget_where_budgets_are_shared() -> None:
    grouped = [(name, [label for label, _ in group]) for name, group in outcome_figures.groups(ROWS)]
    assert grouped == [
        ("no budget", ["reward-only"]),
        ("budget 0.1", ["sparse", "rci"]),
        ("budget 0.2", ["sparse", "rci"]),
    ]


def test_rows_stand_together_by_method_where_budgets_differ() -> None:
    rows = [row("sparse", 0.11), row("sparse", 0.21), row("rci", 0.12), row("rci", 0.22)]
    grouped = [(name, [label for label, _ in group]) for name, group in outcome_figures.groups(rows)]
    assert grouped == [
        ("sparse", ["budget 0.11", "budget 0.21"]),
        ("rci", ["budget 0.12", "budget 0.22"]),
    ]


def test_bars_are_as_long_as_the_rates() -> None:
    figure = outcome_figures.violation_bars(ROWS, STYLE)
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0.6, 0.3, 0.08, 0.4, 0.15]
    assert {"60.0%", "8.0%"} <= set(texts(figure))


def test_returns_are_written_beside_their_dots() -> None:
    assert {"2.000", "1.200", "1.700"} <= set(texts(outcome_figures.return_dots(ROWS, STYLE)))


def test_trade_off_has_one_line_per_method() -> None:
    figure = outcome_figures.trade_off(ROWS, STYLE)
    lines = {line.get_color(): line.get_xydata().tolist() for line in figure.axes[0].lines}
    assert lines[LOOKS["rci"].color] == [[0.08, 1.2], [0.15, 1.7]]
    assert lines[LOOKS["reward-only"].color] == [[0.6, 2.0]]
    assert {"reward-only", "sparse", "rci"} <= set(texts(figure))


def test_what_is_possible_is_a_broken_line_of_its_own() -> None:
    known = [
        KnownDanger("blind", 0.0, 3, 0.6, 0.5, 0.7, 2.0, 1.9, 2.1, 1.0),
        KnownDanger("informed", 9.0, 3, 0.1, 0.0, 0.2, 1.9, 1.8, 2.0, 1.8),
    ]
    (axes,) = outcome_figures.trade_off(ROWS, STYLE, known).axes
    lines = [line for line in axes.lines if line.get_marker() == KNOWN.marker]
    assert [line.get_xdata().tolist() for line in lines] == [[0.6, 0.1]]
    assert [line.get_ydata().tolist() for line in lines] == [[2.0, 1.9]]
    assert "danger known" in texts(axes.figure)


def test_budget_calibration_puts_realised_over_asked() -> None:
    figure = outcome_figures.budget_calibration(ROWS[1:], STYLE)
    line = next(line for line in figure.axes[0].lines if line.get_color() == LOOKS["rci"].color)
    np.testing.assert_allclose(line.get_ydata(), [0.08, 0.15])
    np.testing.assert_allclose(line.get_xdata(), [0.1, 0.2], rtol=0.02)  # set aside a little
    assert "reward-only" not in texts(figure)


@pytest.mark.parametrize(
    "rows",
    [
        [row("rci", 0.0, rate=0.0, mean_return=0.0)],
        [row("reward-only", math.inf, rate=1.0 - 0.05)],
        [row("rci", 0.1, mean_return=-50.0), row("sparse", 0.1, mean_return=-50.0)],
    ],
)
def test_degenerate_results_can_be_drawn(rows: list[ResultRow]) -> None:
    style = looks(r.method for r in rows)
    for build in (outcome_figures.violation_bars, outcome_figures.return_dots, outcome_figures.trade_off):
        picture = render("x", "", "", lambda build=build: build(rows, style))
        assert picture.svg.startswith(b"<?xml")


def test_paths_are_drawn_where_the_task_says_they_are() -> None:
    report = report_of([-1, -1])

    views = (View("", lambda obs: obs[..., :2] * 10.0, draw_flat),)
    figure = outcome_figures.paths(views, ROWS[-1], report.episodes, LOOKS["rci"])
    drawn = figure.axes[0].lines[0].get_xydata()
    np.testing.assert_allclose(drawn, report.episodes[0].obs * 10.0)
    assert figure.axes[0].get_title(loc="center") == "rci, budget 0.2"
    assert figure.get_suptitle() == ""
    assert figure.get_figheight() < figure.get_figwidth()


def test_paths_have_a_panel_for_each_side() -> None:
    def draw_tall(axes) -> None:
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="along", ylabel="height")

    views = (
        View("from above", lambda obs: obs[..., :2], draw_flat),
        View("from the side", lambda obs: obs[..., ::-1], draw_tall),
    )
    episodes = report_of([-1, -1]).episodes
    figure = outcome_figures.paths(views, ROWS[0], episodes, LOOKS["reward-only"])
    above, side = figure.axes
    assert figure.get_suptitle() == "reward-only"
    assert (above.get_title(), side.get_title()) == ("from above", "from the side")
    assert (above.get_xlabel(), side.get_xlabel(), side.get_ylabel()) == ("", "along", "height")
    np.testing.assert_allclose(above.lines[0].get_xydata(), episodes[0].obs)
    np.testing.assert_allclose(side.lines[0].get_xydata(), episodes[0].obs[:, ::-1])
    figure.draw_without_rendering()
    wide, narrow = (axes.get_window_extent() for axes in figure.axes)
    assert wide.height == pytest.approx(narrow.height, rel=0.1)
    assert wide.width > 1.5 * narrow.width
    assert wide.x1 < side.yaxis.label.get_window_extent().x0


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        ([4, -1, 0, 1, 2, 3], [3, 5, 1]),  # stopped ones by length: 2 3 4 5 0; quartiles 3 and 5; one safe
        ([0, 1, 2, 3, 4], [1, 2, 3]),
        ([0, 4, 4, 4, 0, 4, -1], [1, 3, 6]),  # too short ones are passed over where there are enough others
        ([-1, -1, -1], [0, 1]),
        ([-1], [0]),
        ([2], [0]),
    ],
)
def test_episodes_are_picked_by_rule(stops: list[int], expected: list[int]) -> None:
    assert redistribution_figures.sampled_episodes(report_of(stops).labels) == expected


@pytest.mark.parametrize(("method", "risk", "rows"), [(None, True, 2), ("rci", False, 3), ("rci", True, 4)])
def test_an_episode_has_a_row_for_everything_known(method: str | None, risk: bool, rows: int) -> None:
    figure = redistribution_figures.redistributed_episode(report_of([-1, 3], risk=risk), 1, method)
    assert len(figure.axes) == rows


def test_an_episode_shows_its_own_costs() -> None:
    figure = redistribution_figures.redistributed_episode(report_of([-1, 3], risk=True), 1, "rci")
    sparse, dense, total, _ = figure.axes
    assert [bar.get_height() for bar in sparse.patches] == [0.0, 0.0, 0.0, 1.0]
    np.testing.assert_allclose([bar.get_height() for bar in dense.patches], 0.25)
    np.testing.assert_allclose(total.lines[0].get_ydata(), [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(total.lines[1].get_ydata(), np.linspace(0, 1, 10)[6:])


@pytest.mark.parametrize("build", [dataset_figures.length_histogram, dataset_figures.return_histogram])
@pytest.mark.parametrize("stops", [[-1, 2, 3, -1], [-1, -1], [0, 0]])
def test_histograms_hold_every_episode(build, stops: list[int]) -> None:
    axes = build(report_of(stops)).axes[0]
    assert sum(bar.get_height() for bar in axes.patches) == len(stops)


def test_reliability_plot_and_losses() -> None:
    table = [[0.1, 0.2, 5], [0.9, 1.0, 50]]
    dots = redistribution_figures.reliability_plot(table, LOOKS["rci"]).axes[0].collections[0]
    assert dots.get_offsets().tolist() == [[0.1, 0.2], [0.9, 1.0]]
    assert dots.get_sizes()[1] > dots.get_sizes()[0]
    curves = redistribution_figures.loss_curves([3.0, 2.0], [], LOOKS["rci"]).axes[0].lines
    assert [curve.get_ydata().tolist() for curve in curves] == [[3.0, 2.0]]


def test_rendering_is_deterministic_and_leaves_the_users_style_alone() -> None:
    before = dict(matplotlib.rcParams)
    first, second = (render("x", "", "", lambda: outcome_figures.trade_off(ROWS, STYLE)) for _ in range(2))
    assert first == second
    assert dict(matplotlib.rcParams) == before
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        assert render("x", "", "", lambda: outcome_figures.trade_off(ROWS, STYLE)) == first


def test_dollar_signs_are_not_mathematics() -> None:
    rows = [row("$\\broken{$", 0.1)]
    style = looks(["$\\broken{$"])
    assert render("x", "", "", lambda: outcome_figures.trade_off(rows, style)).png

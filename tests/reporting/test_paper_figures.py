"""The figures of the paper's experiments: what they show, and that any subset of rows can be drawn."""

import matplotlib.style
import numpy as np
import pytest
from matplotlib.figure import Figure
from paper_rows import row, sweep, whole_study

from rci.evaluation.reference import ReferencePoint, Ruler
from rci.reporting.figures.palette import STYLE, looks
from rci.reporting.figures.picture import render
from rci.reporting.paper import map_figures as paper_map_figures
from rci.reporting.paper.contents import Setting, matched_ratio, setting_names
from rci.reporting.paper.figures import drawing_of, paper_looks
from rci.run.paper.summary import paper_summary


@pytest.fixture(scope="module")
def study():
    return paper_summary(whole_study(seeds=2))


def built(summary, name) -> Figure:
    with matplotlib.style.context(["default", STYLE]):
        return drawing_of(summary.experiment(name), paper_looks(summary)).build()


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def titles(figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]


def test_every_experiment_has_a_figure(study):
    style = paper_looks(study)
    assert all(drawing_of(experiment, style) is not None for experiment in study.experiments)


def test_methods_look_the_same_everywhere(study):
    plain = looks({"reward-only", "sparse", "hazard", "rci", "uniform"})
    varied = {"sparse, slow": plain["sparse"], "potential": plain["rci"], "potential, cautious": plain["rci"]}
    assert paper_looks(study) == plain | varied


def test_variants_of_a_method_stand_behind_it(study):
    assert [one.method for one in study.experiment("ingredients").outcomes] == [
        "reward-only", "sparse", "sparse, slow", "hazard", "potential", "potential, cautious",
    ]  # fmt: skip


def test_main_bars_show_means_errors_and_seeds():
    rows = [row(seed=s, violation_rate=rate, return_norm=0.5) for s, rate in enumerate([0.1, 0.3])]
    left, right = built(paper_summary(rows), "highway").axes
    (bar,) = right.patches
    assert bar.get_width() == pytest.approx(0.2)
    assert texts(left) == ["0.50"]
    assert texts(right) == ["20.0%"]
    dots, _, error = right.lines
    assert dots.get_xdata() == pytest.approx([0.1, 0.3])
    assert error.get_xdata() == pytest.approx([0.1, 0.3])  # the standard error of the two is 0.1
    assert [label.get_text() for label in left.get_yticklabels()] == ["rci"]


def test_a_panel_without_numbers_is_not_drawn():
    rows = [row(return_norm=None), row(return_norm=None, method="sparse")]
    assert titles(built(paper_summary(rows), "highway")) == ["Violation rate"]


def test_composition_has_a_heading_for_every_dataset(study):
    left, right = built(study, "composition").axes
    assert [text for text in texts(left) if "data" in text] == ["ppo data", "random data", "mixed data"]
    assert len(right.patches) == 3 * 5


def test_channels_have_a_panel_each(study):
    assert titles(built(study, "highway-two")) == [
        "Normalised return",
        "Violations of any kind",
        "First violation: proximity",
        "First violation: road",
    ]


def test_calibration_shows_policies_their_mean_and_the_diagonal():
    rows = [
        row(experiment="calibration", budget="0.1", seed=s, violation_rate=rate)
        for s, rate in enumerate([0.2, 0.4])
    ]
    (axes,) = built(paper_summary(rows), "calibration").axes
    diagonal, seeds, mean = axes.lines
    assert (diagonal.get_xdata() == diagonal.get_ydata()).all()
    assert seeds.get_ydata() == pytest.approx([0.2, 0.4])
    assert (mean.get_xdata()[0], mean.get_ydata()[0]) == pytest.approx((0.1, 0.3))


def test_what_is_possible_is_a_line_on_its_task():
    points = [ReferencePoint(name, price, 3, rate, rate, rate, gain, gain, gain, gain, None)
              for name, price, rate, gain in (("blind", 0.0, 0.6, 50.0), ("informed", 9.0, 0.1, 48.0))]  # fmt: skip
    study = paper_summary(whole_study(seeds=2), {"highway": Ruler(0.0, 50.0, points[1], tuple(points))})
    highway, fetch = built(study, "frontier").axes
    (line,) = [line for axes in (highway, fetch) for line in axes.lines if line.get_marker() == "*"]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0.6, 0.1], [50.0, 48.0])
    assert line.axes is highway
    assert "danger is known" in drawing_of(study.experiment("frontier"), paper_looks(study)).caption


def test_label_efficiency_has_a_tick_for_every_count(study):
    figure = built(study, "label-efficiency")
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["250", "1,000", "5,000"]
    assert "at a return of" in titles(figure)[0]


def test_when_it_pays_writes_every_ratio(study):
    frontiers = study.experiment("when-it-pays").frontiers
    figure = built(study, "when-it-pays")
    first = figure.axes[0]
    assert titles(figure) == [
        f"{task}: rci / {rival}" for task in ("highway", "fetch-reach") for rival in ("sparse", "hazard")
    ]
    own = {(f.setting, f.method): f for f in frontiers}
    setting = Setting("highway", "mixed", "clean", "bcq-lagrangian", 250, 1000)
    ratio = matched_ratio(own[setting, "rci"], own[setting, "sparse"], 0.75)
    assert texts(first)[0] == f"×{ratio:.2f}"
    assert np.asarray(first.images[0].get_array())[0, 0] == pytest.approx(np.log2(ratio))


@pytest.mark.parametrize(
    ("ratio", "doublings", "text"),
    [
        (1.0, 0.0, "×1.00"),
        (0.25, -2.0, "×0.25"),
        (0.0, -3.0, "×0"),
        (np.inf, 3.0, "×∞"),
        (100.0, 3.0, "×100.0"),
    ],
)
def test_ratios_in_doublings(ratio, doublings, text):
    assert paper_map_figures._doublings(ratio) == doublings
    assert paper_map_figures._times(ratio) == text


def test_the_grid_tells_violations_and_returns_and_what_is_missing():
    rows = [
        row(experiment="grid", method="rci", learner="cpq"),
        row(experiment="grid", method="sparse", learner="cdt"),
    ]
    axes = built(paper_summary(rows), "grid").axes[0]
    assert sorted(texts(axes)) == ["3.0%\n41.0", "3.0%\n41.0", "–", "–"]


@pytest.mark.parametrize("count", [1, 4, 30, 200])
def test_any_subset_of_rows_can_be_drawn(count):
    rows = whole_study(seeds=1)
    kept = np.random.default_rng(count).permutation(len(rows))[:count]
    summary = paper_summary([rows[i] for i in kept])
    style = paper_looks(summary)
    for experiment in summary.experiments:
        drawing = drawing_of(experiment, style)
        if drawing is not None:
            drawing.build()
        elif experiment.name in ("highway", "composition"):
            assert not experiment.outcomes


def test_nothing_is_drawn_of_nothing():
    summary = paper_summary([])
    assert not any(drawing_of(experiment, {}) for experiment in summary.experiments)


def test_zero_violations_can_be_drawn():
    rows = sweep("highway", seeds=2) + sweep("calibration", seeds=2)
    for one in rows:
        one["violation_rate"] = 0.0
    for name in ("highway", "frontier"):
        built(paper_summary(rows), name)


def test_settings_are_named_by_what_differs():
    one = Setting("highway", "mixed", "clean", "cpq", 5000, 1000)
    assert setting_names([one]) == {one: ""}
    noisy = one._replace(noise="noisy", updates=2000)
    assert setting_names([one, noisy])[noisy] == "noisy labels, 2,000 updates"
    assert setting_names([one, noisy], leave_out=("updates",))[noisy] == "noisy labels"


def test_the_same_figure_gives_the_same_pdf():
    summary = paper_summary([row()])
    drawing = drawing_of(summary.experiment("highway"), paper_looks(summary))
    first, second = (render("x", "alt", "caption", drawing.build) for _ in range(2))
    assert first == second
    assert first.pdf == second.pdf
    assert first.pdf.startswith(b"%PDF")
    assert b"CreationDate" not in first.pdf
    assert set(first.files()) == {"x.pdf", "x.svg", "x.png"}

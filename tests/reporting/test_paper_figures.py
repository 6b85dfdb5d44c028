"""The figures of the paper's experiments: what they show, and that any subset of rows can be drawn."""

import matplotlib.style
import numpy as np
import pytest
from matplotlib.figure import Figure
from paper_rows import row, sweep, under_best_learner, whole_study

from rci.evaluation.reference import ReferencePoint, Ruler
from rci.reporting.figures.palette import LOOKS, OTHERS, STYLE, study_looks
from rci.reporting.figures.picture import render
from rci.reporting.paper import map_figures as paper_map_figures
from rci.reporting.paper.contents import Setting, matched_ratio, setting_names
from rci.reporting.paper.figures import drawing_of, paper_looks
from rci.studies.paper.experiments import METHODS
from rci.studies.paper.findings.summary import paper_summary


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
    style = paper_looks(study)
    known = ["reward-only", "sparse", "uniform", "hazard", "rudder"]
    assert list(style) == [*known, "rudder-prefix-guide", "sparse-10-steps"]
    assert style["rudder"] == LOOKS["rci"]
    assert style["rudder-prefix-guide"] == OTHERS[0]
    assert all(style[name] == LOOKS[name] for name in ("reward-only", "sparse", "uniform", "hazard"))


def test_all_methods_of_the_study_can_be_told_apart():
    style = study_looks(METHODS)
    assert list(style)[:5] == ["reward-only", "sparse", "uniform", "hazard", "rudder"]
    assert len({(look.color, look.marker) for look in style.values()}) == len(METHODS)


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
    assert [label.get_text() for label in left.get_yticklabels()] == ["rudder"]


def test_a_panel_without_numbers_is_not_drawn():
    rows = [row(return_norm=None), row(return_norm=None, method="sparse")]
    assert titles(built(paper_summary(rows), "highway")) == ["Violation rate"]


def test_composition_has_a_heading_for_every_dataset(study):
    left, right = built(study, "composition").axes
    assert [text for text in texts(left) if "data" in text] == ["ppo data", "random data", "mixed data"]
    assert len(right.patches) == 3 * 5


def test_what_is_possible_is_a_line_on_its_task():
    points = [ReferencePoint(name, price, 3, rate, rate, rate, gain, gain, gain, gain, None)
              for name, price, rate, gain in (("blind", 0.0, 0.6, 50.0), ("informed", 9.0, 0.1, 48.0))]  # fmt: skip
    study = paper_summary(whole_study(seeds=2), {"highway": Ruler(0.0, 50.0, points[1], tuple(points))})
    (axes,) = built(study, "best-learner").axes
    (line,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0.6, 0.1], [50.0, 48.0])
    (arm,) = built(study, "best-learner-arm").axes
    assert not [line for line in arm.lines if line.get_marker() == "*"]
    assert "danger is known" in drawing_of(study.experiment("best-learner"), paper_looks(study)).caption


def test_a_frontier_has_marks_of_policies_and_a_curve_of_each_method():
    rows = under_best_learner("best-learner", methods=("sparse", "rudder-prefix-guide"), seeds=2)
    summary = paper_summary(rows)
    (axes,) = built(summary, "best-learner").axes
    own = {one.method: one for one in summary.experiment("best-learner").frontiers}
    marks, curve = axes.lines[1:3]  # of sparse, behind the marks of reward-only
    assert list(zip(marks.get_ydata(), marks.get_xdata())) == [
        (one.mean_return, one.violation_rate) for one in own["sparse"].policies
    ]
    assert list(zip(curve.get_ydata(), curve.get_xdata())) == list(own["sparse"].curve)
    assert len(axes.lines) == 1 + 2 * 2


def test_when_it_pays_writes_every_ratio(study):
    """A panel for each method, a line for each number of labels, a column for each length."""
    figure = built(study, "when-it-pays")
    first = figure.axes[0]
    assert titles(figure) == ["rudder-prefix-guide / sparse"]
    assert [label.get_text() for label in first.get_yticklabels()] == [
        "100 labels", "1,000 labels", "5,000 labels",
    ]  # fmt: skip
    assert [label.get_text() for label in first.get_xticklabels()] == ["2k", "8k"]
    own = {(f.setting, f.method): f for f in study.experiment("when-it-pays").frontiers}
    ratios = [
        matched_ratio(own[setting, "rudder-prefix-guide"], own[setting, "sparse"], 0.75)
        for labelled in (100, 1000, 5000)
        for updates in (2000, 8000)
        for setting in [Setting("highway", "mixed", "clean", "feasible", labelled, updates)]
    ]
    assert texts(first) == [paper_map_figures._times(ratio) for ratio in ratios]
    expected = [paper_map_figures._doublings(ratio) for ratio in ratios]
    assert np.asarray(first.images[0].get_array()).ravel() == pytest.approx(expected)


def test_a_map_names_kinds_of_logs_by_what_differs(study):
    for name, kinds in (
        ("imperfect-labels", ["noisy labels", "adversarial labels", "human labels", "late labels"]),
        ("horizon", ["highway-15hz", "fetch-reach-fine"]),
    ):
        assert [label.get_text() for label in built(study, name).axes[0].get_yticklabels()] == kinds


def test_a_ratio_that_is_not_known_is_a_dash():
    rows = [
        row(experiment="horizon", method=method, learner="feasible", budget="T5", updates=updates)
        for method, updates in (("sparse", 2000), ("rudder-prefix-guide", 8000))
    ]
    assert texts(built(paper_summary(rows), "horizon").axes[0]) == ["–", "–"]
    assert (
        drawing_of(paper_summary(rows[:1]).experiment("horizon"), {}) is None
    )  # nothing to hold against sparse


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
    rows = sweep("highway", seeds=2) + under_best_learner("best-learner", seeds=2)
    rows += under_best_learner("horizon", methods=("sparse", "rudder-prefix-guide"), seeds=2)
    for one in rows:
        one["violation_rate"] = 0.0
    for name in ("highway", "best-learner", "horizon"):
        built(paper_summary(rows), name)


def test_settings_are_named_by_what_differs():
    one = Setting("highway", "mixed", "clean", "feasible", 5000, 1000)
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

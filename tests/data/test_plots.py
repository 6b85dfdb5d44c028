"""Quick looks for notebooks."""

from __future__ import annotations

import io

import numpy as np
import pytest
from conftest import ragged, sparse_costs

import rci
from rci.data.types import Scores


def drawn(figure) -> bytes:
    """The figure as a notebook would show it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def labels(point_episodes):
    return rci.label(point_episodes, "point")


def test_episodes_are_drawn_by_source(point_episodes):
    figure = point_episodes.plot()
    left, right = figure.axes
    assert [text.get_text() for text in right.get_legend().get_texts()] == list(point_episodes.sources)
    assert sum(bar.get_height() for bar in left.containers[-1]) <= len(point_episodes)
    assert drawn(figure).startswith(b"\x89PNG")
    assert drawn(ragged([3, 5]).plot()).startswith(b"\x89PNG")


def test_labels_and_scores_tell_both_sides(labels):
    figure = labels.plot()
    told = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert told == [f"stopped: {labels.stopped.sum()}", f"safe: {(~labels.stopped).sum()}"]
    scores = Scores(
        np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]), np.array([-1, -1, 2]), np.array([5, 5, 5])
    )
    assert "violated: 33.3%" in [text.get_text() for text in scores.plot().axes[0].get_legend().get_texts()]
    assert drawn(scores.plot()).startswith(b"\x89PNG")


def test_costs_are_drawn_row_by_row(labels):
    costs = sparse_costs(labels)
    (image,) = costs.plot([3, 5]).axes[0].get_images()
    shown = image.get_array()
    assert shown.shape == (2, max(costs.lengths[3], costs.lengths[5]))
    np.testing.assert_array_equal(shown[0, : costs.lengths[3]], costs.per_episode()[3])
    assert drawn(costs.plot()).startswith(b"\x89PNG")


def test_a_notebook_shows_what_an_artefact_is(point_episodes, labels):
    shown = point_episodes._repr_html_()
    assert "60 episodes" in shown
    assert "<td>obs</td><td>float32</td>" in shown
    named = rci.Episodes(**{**point_episodes.arrays(), "task": "<script>"})
    assert "<script>" not in named._repr_html_()
    assert "stopped" in labels._repr_html_()


def test_looking_does_not_load_pyplot():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, rci; from rci.data.types import Scores\n"
        "z = np.zeros(3); Scores(z, z, np.array([-1, -1, -1]), np.ones(3, int)).plot()\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

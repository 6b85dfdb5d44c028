"""Quick looks for notebooks."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ragged, sparse_costs

import rci
from rci.data.errors import RciError
from rci.data.types import Scores


def drawn(figure) -> bytes:
    """What a notebook asks for and shows, also if nobody has imported pyplot."""
    return figure._repr_png_()


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


@pytest.mark.parametrize(
    ("chosen", "message"),
    [([999], "there is no episode 999"), ([], "name at least one"), (["a"], "by their numbers")],
)
def test_episodes_that_are_not_there(labels, chosen, message):
    with pytest.raises(RciError, match=message):
        sparse_costs(labels).plot(chosen)


def test_what_is_imported_says_what_was_decided(tmp_path):
    (tmp_path / "log.csv").write_text("run,obs,action,reward,stop\na,1,0.5,1,0\na,1,0.5,1,1\n")
    told = repr(rci.import_logs(tmp_path / "log.csv"))
    assert told.startswith(
        "Imported(Episodes(1 episodes, 2 steps, observation (1,), action (1,)), 1 stopped)\n"
    )
    assert "episode = run" in told
    assert "last observation is repeated" in told


def test_an_episode_is_told_in_a_line():
    episodes = ragged([3, 5])
    assert repr(episodes[1]).startswith("Episode(5 steps, observation (3,), action (2,), ")
    assert len(repr(episodes[1]).splitlines()) == 1


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

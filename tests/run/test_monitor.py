"""From step costs to a monitor: levels on held-out episodes, a folder to take away, figures of how good it is."""

import math

import numpy as np
import pytest
from random_models import random_costs

import rci
from rci import runtime
from rci.collection import collect
from rci.data.errors import RciError
from rci.evaluation.detection import choose_level
from rci.pipeline.commands.inspection import describe
from rci.pipeline.monitor import fit_monitor, held_out_risk, judge_monitor
from rci.redistribution import score
from rci.reporting.figures.lines import detection_picture


@pytest.fixture(scope="module")
def held_out():
    episodes = collect("point", 60, "mixed", seed=8)[0]
    return episodes, rci.label(episodes, "point")


@pytest.fixture(scope="module")
def costs(point_labels):
    return random_costs("rudder", point_labels, (4, 2))


def test_a_fitted_monitor_keeps_its_rate_on_the_episodes_it_was_chosen_on(costs, held_out, tmp_path):
    episodes, labels = held_out
    record = fit_monitor(costs, episodes, labels, 0.2)
    safe = np.flatnonzero(~labels.stopped)
    risk = [own.max() for own, stopped in zip(score(costs, episodes), labels.stopped) if not stopped]
    assert record.info["level"] == choose_level([[value] for value in risk], 0.2).level
    assert record.info["safe_episodes"] == len(safe)
    rci.save(record, tmp_path / "monitor")
    monitor = runtime.load_monitor(tmp_path / "monitor")
    alarms = 0
    for i in safe:
        monitor.watch(episodes[int(i)].obs, episodes[int(i)].action)
        alarms += monitor.alarm
    # Up to the episode whose own risk is the level: NumPy may round it up.
    assert alarms in {math.floor(0.2 * (len(safe) + 1)) - 1, math.floor(0.2 * (len(safe) + 1))}
    low, high = record.info["false_alarm_interval"]
    assert low < 0.2 < high
    assert describe(tmp_path / "monitor", verify=True)["numbers"]["level"] == record.info["level"]


def test_risk_ends_at_the_stop(costs, held_out):
    episodes, labels = held_out
    assert [len(own) for own in held_out_risk(costs, episodes, labels)] == labels.kept_lengths.tolist()


def test_episodes_that_were_learned_by_heart_are_refused(costs, point_episodes, point_labels):
    with pytest.raises(RciError, match="episodes that the step costs were inferred from"):
        fit_monitor(costs, point_episodes, point_labels)


def test_a_level_needs_safe_episodes(costs, held_out):
    episodes, _ = held_out
    with pytest.raises(RciError, match="every one of these episodes was stopped"):
        fit_monitor(costs, episodes, rci.label(episodes, [0] * len(episodes)))


def test_rows_and_the_figure_of_them(costs, held_out):
    episodes, labels = held_out
    rows = judge_monitor(costs, episodes, labels, rates=(0.1, 0.5))
    assert [row["false_alarm_rate"] for row in rows] == [0.1, 0.5]
    safe = int((~labels.stopped).sum())
    assert all(row["safe_episodes"] == safe - safe // 2 for row in rows)
    assert all(row["stopped_episodes"] == len(labels) - safe for row in rows)
    none = {
        **rows[0],
        "detected": 0.0,
        "detected_low": 0.0,
        "lead": None,
        "lead_low": None,
        "lead_high": None,
    }
    other = [{**row, "method": "traces"} for row in (none, rows[1])]
    picture = detection_picture([*rows, *other], step_seconds=0.5)
    assert picture.png.startswith(b"\x89PNG")
    shares, leads, realised = picture.figure.axes
    assert [axes.get_title(loc="left") for axes in (shares, leads, realised)] == [
        "Stops detected",
        "Lead time, seconds",
        "Safe episodes interrupted",
    ]
    assert shares.lines[0].get_ydata().tolist() == [row["detected"] for row in rows]
    known = [row["lead"] for row in rows if row["lead"] is not None]
    assert leads.lines[0].get_ydata().tolist() == [0.5 * lead for lead in known]
    assert len(leads.lines[1].get_xdata()) == sum(row["lead"] is not None for row in other)
    assert detection_picture(rows).svg == detection_picture(rows).svg

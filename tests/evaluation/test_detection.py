import math

import numpy as np
import pytest

from rci.data.errors import RciError
from rci.evaluation.detection import Level, alarm_steps, choose_level, detect, detection_curve, peaks
from rci.evaluation.stats import clopper_pearson


def risks_with_peaks(values):
    """Episodes of three steps whose highest risk is the second."""
    return [np.array([0.0, value, value / 2]) for value in values]


NINE = risks_with_peaks([0.3, 0.1, 0.9, 0.2, 0.5, 0.4, 0.8, 0.7, 0.6])


def test_a_level_by_hand():
    """Of 9 the 8th for a rate of 0.2, since (9 + 1) * 0.8 = 8: one of them is over it."""
    level = choose_level(NINE, 0.2)
    assert level.level == 0.8
    assert (level.episodes, level.false_alarm_rate) == (9, 0.2)
    assert (level.low, level.high) == clopper_pearson(1, 9)
    assert choose_level(NINE, 0.1).level == 0.9
    assert choose_level(NINE, 0.5).level == 0.5
    assert choose_level(NINE, 0.15).level == 0.9  # rounded to the safe side


def test_too_few_episodes_promise_nothing():
    with pytest.raises(
        RciError, match="9 safe episodes are too few to promise a false-alarm rate of 0.05: .* 19"
    ):
        choose_level(NINE, 0.05)
    assert choose_level(risks_with_peaks(range(19)), 0.05).level == 18


def test_the_promise_is_kept_on_average_and_the_interval_covers():
    """Peaks uniform in [0, 1], so a level of x comes true as 1 - x. Mean: 6 sigma. Coverage: 0.95 less 6 sigma."""
    rng, asked, count, draws = np.random.default_rng(0), 0.1, 49, 3000
    true, covered = np.zeros(draws), 0
    for i in range(draws):
        level = choose_level(risks_with_peaks(rng.random(count)), asked)
        true[i] = 1.0 - level.level
        covered += level.low <= true[i] <= level.high
    sigma = math.sqrt(asked * (1 - asked) / (count + 2))
    assert abs(true.mean() - asked) < 6 * sigma / math.sqrt(draws)
    assert covered / draws > 0.95 - 6 * math.sqrt(0.95 * 0.05 / draws)


def test_alarms_and_leads_by_hand():
    risk = [
        np.array([0.1, 0.6, 0.2, 0.9, 0.1]),  # alarm at 1, stop at 4: 3 steps ahead
        np.array([0.1, 0.2, 0.6]),  # alarm at the stop itself: too late
        np.array([0.1, 0.2, 0.3]),  # no alarm
        np.array([0.6, 0.1]),  # alarm at 0, stop at 1: 1 step ahead
        np.array([0.5, 0.5]),  # safe, and never over the level
        np.array([0.1, 0.7]),  # safe, a false alarm
    ]
    stop = [4, 2, 2, 1, -1, -1]
    assert alarm_steps(risk, 0.5).tolist() == [1, 2, -1, 0, -1, 1]
    found = detect(Level(0.5, 0.1, 20, 0.0, 0.2), risk, stop)
    assert (found.safe_episodes, found.false_alarms) == (2, 0.5)
    assert (found.stopped_episodes, found.detected) == (4, 0.5)
    assert (found.lead, found.lead_low, found.lead_high) == (2.0, 1.5, 2.5)
    assert (found.detected_low, found.detected_high) == clopper_pearson(2, 4)
    assert detect(Level(0.5, 0.1, 20, 0.0, 0.2), risk, stop, least_lead=0).detected == 0.75
    early = detect(Level(0.5, 0.1, 20, 0.0, 0.2), risk, stop, least_lead=4)
    assert (early.detected, early.lead) == (0.0, None)


def test_more_false_alarms_detect_no_less():
    rng = np.random.default_rng(1)
    safe = [rng.random(12) for _ in range(60)]
    risk = [rng.random(12) + 0.3 * (i % 2) for i in range(80)]
    stop = [11 if i % 2 else -1 for i in range(80)]
    curve = detection_curve(safe, risk, stop, (0.02, 0.1, 0.3, 0.6))
    assert [row.false_alarm_rate for row in curve] == [0.02, 0.1, 0.3, 0.6]
    for name in ("false_alarms", "detected", "lead"):
        values = [getattr(row, name) for row in curve if getattr(row, name) is not None]
        assert values == sorted(values)
        assert values[0] < values[-1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choose_level(NINE, 0.0), "between 0 and 1, got 0"),
        (lambda: choose_level([], 0.1), "no episodes"),
        (lambda: peaks([[0.1, np.nan]]), "risk of episode 0 must be a finite number"),
        (lambda: detect(Level(0.5, 0.1, 9, 0, 1), NINE, [1]), "9 episodes need as many stop indices"),
        (lambda: detect(Level(0.5, 0.1, 9, 0, 1), NINE, [-1] * 9), "0 of the 9 episodes were stopped"),
        (lambda: detect(Level(0.5, 0.1, 9, 0, 1), NINE, [3, *[-1] * 8]), "episode 0 has 3 steps"),
        (lambda: detect(Level(0.5, 0.1, 9, 0, 1), NINE, [0, *[-1] * 8], -1), "least_lead"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(RciError, match=message):
        call()

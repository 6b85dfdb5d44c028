"""The page of an assessment: the verdict first, in words, then the evidence."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from rci.data.risk.estimates import Interval, PolicyEstimate, Support
from rci.reporting.assessment import words
from rci.reporting.assessment.contents import AssessmentInput, JudgedPolicy, Shown, Watching
from rci.reporting.assessment.page import page, write_assessment

SECTIONS = ("policies", "different", "films", "stopped", "monitor", "calibration")
EMPTY = dict.fromkeys(SECTIONS, ())


def estimate(low: float, high: float, outside: float = 0.31) -> PolicyEstimate:
    stop, earned = Interval((low + high) / 2, low, high), Interval(3.0, 2.5, 3.5)
    methods = {"models": stop, "agreeing": Interval(0.1, 0.0, 0.4)}
    return PolicyEstimate(
        stop,
        earned,
        methods,
        Support(outside, 0.2, 0.1, 42.0),
        Interval(0.51, 0.45, 0.57),
        earned,
        300,
        0.9,
        low,
        high,
    )


def shown(name: str, stopped: bool) -> Shown:
    steps = 8
    rng = np.random.default_rng(1)
    return Shown(
        name=name,
        obs=rng.normal(size=(steps + 1, 2)),
        signals={"lidar_3 [m]": np.linspace(2, 0, steps + 1), "speed": np.ones(steps + 1)},
        recorded=rng.normal(size=(steps, 2)),
        policy=rng.normal(size=(steps, 2)),
        cost=np.linspace(-0.1, 0.35, steps),
        risk=np.linspace(0.1, 0.9, steps),
        stopped=stopped,
    )


def content(
    low: float, high: float, budget: float = 0.05, outside: float = 0.31, **changed
) -> AssessmentInput:
    made = {"5%": (0.05, estimate(low, high, outside)), "no budget": (math.inf, estimate(0.4, 0.6, outside))}
    rows = [{
        "method": "rudder", "false_alarm_rate": rate, "level": 0.4, "safe_episodes": 30, "false_alarms": rate,
        "false_alarms_low": 0.0, "false_alarms_high": 0.3, "stopped_episodes": 30, "detected": 0.8,
        "detected_low": 0.6, "detected_high": 0.9, "lead": 12.0, "lead_low": 8.0, "lead_high": 20.0,
    } for rate in (0.05, 0.2)]  # fmt: skip
    whole = AssessmentInput(
        source="runs <b>.csv",
        budget=budget,
        policies=tuple(
            JudgedPolicy(name, own, found, found.verdict(budget), name == "5%", name.rstrip("%"))
            for name, (own, found) in made.items()
        ),
        facts={"runs": "300"},
        notes=("lidar_7 [m] is the same in every row",),
        parts={"fit": (165, 84), "selection": (60, 30), "held-out": (75, 38)},
        action_names=["cmd speed [m/s]", "cmd turn [rad/s]"],
        different=(shown("run r17", False),),
        stopped=(shown("run r3", True),),
        watching=Watching("rudder", 0.4, 0.05, rows, [[0.1, 0.15, 90], [0.8, 0.7, 20]], 0.06),
        command="rci assess runs.csv",
        settings={"learn": {"updates": 6000}},
        versions={"rci": "0.1.0"},
        timings={"training": 61.3},
        level=0.9,
        rewarded=True,
        step_seconds=0.1,
    )
    return replace(whole, **changed)


@pytest.mark.parametrize(
    ("low", "high", "outside", "title"),
    [
        (0.0, 0.04, 0.1, "Deploy under a monitor"),
        (0.03, 0.19, 0.31, "The logs cannot say"),
        (0.0, 0.04, 0.8, "The logs cannot say"),
        (0.1, 0.3, 0.1, "Do not deploy"),
    ],
)
def test_the_page_begins_with_the_verdict(low, high, outside, title):
    text = page(content(low, high, outside=outside), EMPTY)
    assert re.findall(r"<h1.*?>(.*?)</h1>", text) == [title]
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)).replace("\u2060", "")
    begin = plain.index("Assessment of runs &lt;b&gt;.csv for a budget of 5%")
    assert plain.index(title, begin) < plain.index("The logs were stopped in 51% of 300 episodes", begin)
    assert plain.index("it leaves the data in", begin) < plain.index("What would change it", begin)


def test_what_would_change_it_is_computed():
    unsure = words.changes(content(0.03, 0.19))
    assert any("900 more episodes" in sentence for sentence in unsure)
    assert unsure[-1] == (
        "With these logs the lowest budget for which a policy would be deployed is 19.1% (the policy 5%)."
    )
    fit = words.changes(content(0.0, 0.042))
    assert fit == ["The verdict would be another one for a budget below 4.2%."]
    nowhere = words.changes(content(0.1, 1.0, outside=0.9))
    assert (
        nowhere[-1] == "With these logs there is no budget below 100% for which a policy would be deployed."
    )


def test_the_lowest_budget_is_one_for_which_the_policy_is_deployed():
    for high in (0.19, 0.0449, 0.05, 0.12345):
        told = words.least_budget(content(0.0, high))
        share = float(told[0].rstrip("%")) / 100
        assert high <= share <= high + 0.0011
        assert estimate(0.0, high).verdict(share).word == "deploy under a monitor"


def test_the_written_page_holds_all_evidence_and_needs_nothing_else(tmp_path):
    place = write_assessment(content(0.03, 0.19), tmp_path / "report")
    text = place.read_text()
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", text)
    assert "<script" not in text
    assert "default-src 'none'" in text
    pictures = re.findall(r'<img alt="([^"]+)" src="data:image/svg', text)
    assert len(pictures) == text.count("<img") == 7
    for name in ("stop-rates", "returns", "methods", "difference-1", "stopped-1", "detection", "calibration"):
        assert (tmp_path / "report" / "figures" / f"{name}.svg").is_file()
    assert list(re.findall(r"<h2[^>]*>(.*?)</h2>", text)) == [
        "What would change it", "How often it would be stopped", "How much the logs have seen",
        "Where the policy would act otherwise", "Runs that were stopped", "The monitor", "The logs", "What was run",
    ]  # fmt: skip
    for cell in (
        "3.0–19.0%",
        "31.0%",
        "42.0",
        "1.20",
        "165",
        "lidar_7 [m] is the same in every row",
        "training",
    ):
        assert cell in text.replace("\u2060", ""), cell
    told = " ".join(pictures)
    for part in ("lidar_3 [m]", "Run r17", "the risk of a stop, from 10.0% to 90.0%", "highest at step 8"):
        assert part in told


def test_logs_that_say_nothing_of_what_was_earned_show_no_return():
    text = page(content(0.03, 0.19, rewarded=False), EMPTY)
    assert '<th scope="col">return</th>' not in text
    assert '<th scope="col">return</th>' in page(content(0.03, 0.19), EMPTY)

"""The study of takeovers: its jobs, and what its rows say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rci.data.errors import RciError
from rci.learning import parse_options
from rci.pipeline.results.rows import read_rows
from rci.studies.takeovers import (
    EPISODES,
    MACHINE_ONLY,
    SEEDS,
    VARIANTS,
    WITH_PERSON,
    Cell,
    Scale,
    at_return,
    cells,
    jobs_of,
    key_of,
    takeover_table,
    verdicts,
)

DOCS = Path(__file__).parents[2] / "docs"


def row(seed, variant, rung, rate, earned, halves=None):
    rates, returns = halves or ((rate, rate), (earned, earned))
    return {
        "seed": seed,
        "variant": variant,
        "rung": rung,
        "violation_rate": rate,
        "mean_return": earned,
        "mean_return_until_stop": earned,
        "violation_rate_of_halves": list(rates),
        "return_of_halves": list(returns),
    }


ROWS = [
    row(seed, *rest)
    for seed, more in ((0, 0.0), (1, 0.1))
    for rest in (
        ("machine", "inf", 0.7, 100.0),
        (MACHINE_ONLY, "T3", 0.2 + more, 80.0),
        (MACHINE_ONLY, "inf", 0.6 + more, 100.0),
        (WITH_PERSON, "T3", 0.1, 92.0),
        (WITH_PERSON, "inf", 0.3, 100.0),
    )
]


def test_violations_at_the_same_return_by_hand():
    # 95 lies three quarters of the way from 80 to 100: 0.2 + 0.75 * 0.4; and three eighths from 92 to 100.
    assert at_return(ROWS, MACHINE_ONLY, 0.95) == pytest.approx({0: 0.5, 1: 0.6})
    assert at_return(ROWS, WITH_PERSON, 0.95) == pytest.approx({0: 0.175, 1: 0.175})
    found = verdicts(ROWS)
    assert found[0] == "at 95% of the machine's return, feasible, machine only: 55.0% ± 63.5% violations."
    assert found[2] == (
        "feasible: the person's part takes 37.5% ± 63.5% off the violations, in 2 seeds that earn as much with and "
        "without it."
    )


def test_each_half_is_judged_by_the_other():
    rows = [
        row(0, "machine", "inf", 0.7, 100.0),
        row(0, MACHINE_ONLY, "T3", 0.2, 95.0, ((0.0, 0.4), (96.0, 96.0))),
        row(0, MACHINE_ONLY, "T5", 0.2, 95.0, ((0.3, 0.1), (97.0, 97.0))),
    ]
    # The first half prefers T3, which has 0.4 in the second; the second prefers T5, which has 0.3 in the first.
    assert at_return(rows, MACHINE_ONLY, 0.95) == pytest.approx({0: 0.35})


def test_seeds_that_are_not_done_are_left_out():
    assert at_return(ROWS[:-2], WITH_PERSON, 0.95) == pytest.approx({0: 0.175})


def test_the_page_shows_the_rows():
    page = (DOCS / "takeovers.md").read_text()
    rows = read_rows(DOCS.parent / "results" / "takeovers.json")
    keys = {key_of(cell, Scale(), EPISODES) for cell in cells(range(SEEDS))}
    assert {row["key"] for row in rows} <= keys  # of the settings as they are
    assert takeover_table(rows) in page
    for sentence in verdicts(rows):
        assert f"- {sentence}" in page


def test_a_return_that_nobody_earns():
    poor = [row(0, "machine", "inf", 0.7, 100.0), row(0, MACHINE_ONLY, "T3", 0.1, 50.0)]
    assert np.isnan(at_return(poor, MACHINE_ONLY, 0.95)[0])
    assert verdicts(poor)[0].endswith("no seed earns as much.")
    with pytest.raises(RciError, match="no row of the machine of seed 0"):
        at_return(poor[1:], MACHINE_ONLY, 0.95)


def test_the_table_has_a_line_for_each_policy():
    assert takeover_table(ROWS).splitlines()[2:4] == [
        "| machine |  | 2 | 70.0% | 70.0% to 70.0% | 100.0 | 100.0 |",
        "| feasible, machine only | T3 | 2 | 25.0% | 20.0% to 30.0% | 80.0 | 80.0 |",
    ]


def test_the_jobs_of_a_seed(tmp_path):
    scale, asked = Scale(), cells([3])
    jobs = {job.name: job for job in jobs_of(3, asked, scale, 20, tmp_path)}
    for job in jobs.values():
        assert set(job.needs) <= set(jobs)
        assert all(any(path == other.output for other in jobs.values()) for path in job.inputs.values()) or (
            job.stage == "cut"
        )
    for name, variant in VARIANTS.items():
        folder = "policy-" + name.replace(", ", "-").replace(" ", "-")
        job = jobs[f"{folder}-seed3"]
        assert ("human" in job.inputs) == variant.shown
        # Redistributors and behaviour models see the machine's part.
        assert job.inputs["episodes"] == tmp_path / "seed3" / "cut-machine"
        settings = {k: v for k, v in job.settings.items() if k not in ("method", "budget")}
        parse_options(job.settings["method"], settings)
        tests = [each for each in jobs if each.startswith(f"scores-{folder[7:]}-")]
        assert len(tests) == len(variant.rungs)
    keys = {key_of(cell, scale, 20) for cell in asked} | {key_of(asked[0], scale, 30)}
    assert len(keys) == len(asked) + 1
    assert key_of(Cell(3, MACHINE_ONLY, "T3"), Scale(runs=5), 20) not in keys

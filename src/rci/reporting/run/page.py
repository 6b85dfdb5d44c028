"""The report as one HTML page: every figure inside it, no script, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rci.reporting.figures.picture import Picture
from rci.reporting.html.markup import fill, make_folders, write_page
from rci.reporting.numbers import MISSING, column_decimals, number, percent, signed_percent
from rci.reporting.run import pictures, task_pictures
from rci.reporting.run.contents import ReportInput
from rci.reporting.run.headline import headline
from rci.reporting.run.matched import matched_rows
from rci.reporting.run.result_table import result_table
from rci.reporting.run.rows import (
    cost_rows,
    dataset_facts,
    main_method,
    method_looks,
    random_return,
    result_rows,
    source_rows,
)
from rci.reporting.run.summary import summary

PICTURES = {
    "results": pictures.result_pictures,
    "trade-off": pictures.trade_off_pictures,
    "paths": task_pictures.path_pictures,
    "space": task_pictures.space_pictures,
    "policy-films": task_pictures.policy_film_pictures,
    "critics": task_pictures.critic_pictures,
    "fields": task_pictures.field_pictures,
    "films": task_pictures.film_pictures,
    "episodes": pictures.episode_pictures,
    "redistributor": pictures.redistributor_pictures,
    "dataset": pictures.dataset_pictures,
    "demonstrators": pictures.demonstrator_pictures,
}


def write_report(report: ReportInput, folder: Path) -> Path:
    """Write `index.html`, `summary.json`, `results.md` and `figures/` into `folder`; return the path of the page.

    Files appear whole or not at all, the page last; the same report gives the same bytes.
    """
    make_folders(folder, ["figures"], "the report")
    by_section = {name: draw(report) for name, draw in PICTURES.items()}
    drawn = [picture for group in by_section.values() for picture in group]
    numbers = summary(report, [f"figures/{name}" for one in drawn for name in one.files(("svg", "png"))])
    files = {
        "summary.json": (json.dumps(numbers, indent=1, allow_nan=False) + "\n").encode(),
        "results.md": result_table(report).encode(),
    }
    return write_page(folder, page(report, by_section), files, drawn)


def page(report: ReportInput, pictures: Mapping[str, Sequence[Picture]]) -> str:
    """The whole page. `pictures` go by section."""
    rows, looks, costs = result_rows(report), method_looks(report), cost_columns(report)
    return fill(
        "run.html",
        report=report,
        pictures=pictures,
        sentences=headline(report),
        looks=looks,
        rows=rows,
        decimals=column_decimals(
            [one for row in rows for one in (row.mean_return, row.return_until_violation)]
        ),
        floor=random_return(report),
        matched=matched_rows(rows),
        by_channel=[(row, channel) for row in rows for channel in row.channels],
        several_views=len(task_pictures.task_views(report)) > 1,
        main=main_method(report.costs),
        costs=costs,
        cost_looks=[looks[name] for name in costs.get("method", ())],
        facts=_facts(report),
        sources=source_rows(report),
        settings=_flat(report.settings),
        timings={stage: _duration(seconds) for stage, seconds in report.timings.items()},
        total_time=_duration(sum(report.timings.values())),
    )


def cost_columns(report: ReportInput) -> dict[str, list[str]]:
    """The step costs, a line per method; a column that no method fills is left out."""
    rows = cost_rows(report)
    columns = {
        "method": [row.method for row in rows],
        "return-equivalent": ["yes" if row.return_equivalent else "no" for row in rows],
        "largest gap": [number(row.largest_gap) for row in rows],
        "negative steps": [percent(row.negative_share) for row in rows],
        "on the first step": [signed_percent(row.first_step) for row in rows],
        "held-out accuracy": [percent(row.held_out_accuracy) for row in rows],
        "calibration error": [number(row.calibration_error) for row in rows],
        "quality": [number(row.quality) for row in rows],
        "epochs": [MISSING if row.epochs is None else f"{row.epochs:g}" for row in rows],
    }
    return {name: column for name, column in columns.items() if set(column) - {MISSING}}


def _facts(report: ReportInput) -> dict[str, str]:
    """The dataset in a few numbers, by their names."""
    facts = dataset_facts(report)
    stopped_for = (report.labels.channel_cost > 0).mean(axis=0)
    return {
        "episodes": f"{facts.episodes:,}",
        "steps recorded": f"{facts.steps:,}",
        "steps kept": f"{facts.kept_steps:,}",
        "episodes stopped": percent(facts.stopped_share),
        "mean length": number(facts.mean_length),
        "mean return": number(facts.mean_return),
        **{f"stopped for {name}": percent(share) for name, share in zip(report.labels.channels, stopped_for)},
    }


def _duration(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        nested = isinstance(value, dict) and value
        flat |= _flat(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return flat

"""All the numbers of a report as one JSON document."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from rci.reporting.run.contents import Contrast, ReportInput
from rci.reporting.run.headline import headline
from rci.reporting.run.rows import cost_rows, dataset_facts, result_rows, source_rows


def summary(report: ReportInput, figures: Iterable[str]) -> dict[str, Any]:
    """All the numbers of the page as JSON values; what is not finite, such as no budget, is null."""
    content = {
        "task": report.task,
        "title": report.title,
        "command": report.command,
        "headline": " ".join(headline(report)),
        "dataset": dataset_facts(report)._asdict(),
        "sources": [row._asdict() for row in source_rows(report)],
        "costs": [row._asdict() for row in cost_rows(report)],
        "results": [row._asdict() for row in result_rows(report)],
        "critics": [
            {
                "method": entry.method,
                "budget": entry.budget,
                **({"channel": entry.channel} if entry.channel else {}),
                "lowest": entry.value.min(),
                "highest": entry.value.max(),
            }
            for entry in report.critic_maps
        ],
        "fields": [
            {
                "method": entry.method,
                "budget": entry.budget,
                "lowest": entry.value.min(),
                "highest": entry.value.max(),
                "mean_arrow": np.hypot(entry.arrow[..., 0], entry.arrow[..., 1]).mean(),
            }
            for entry in report.field_maps
        ],
        "demonstrators": report.demonstrators,
        "reference": [asdict(driver) for driver in report.reference],
        "settings": report.settings,
        "versions": report.versions,
        "timings": report.timings,
        "figures": list(figures),
    }
    return {key: _plain(value) for key, value in content.items()}


def _plain(value: Any) -> Any:
    """`value` as JSON values."""
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Contrast):
        return _plain(asdict(value))
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)

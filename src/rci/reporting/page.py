"""The report as one HTML page: every figure inside it, no script, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.reporting import figures
from rci.reporting.contents import MethodResult, ReportInput
from rci.reporting.figures import Picture
from rci.reporting.markup import document, grid, method_name, strips, table, yes_no
from rci.reporting.matched import matched_table
from rci.reporting.palette import Look
from rci.reporting.result_table import result_table
from rci.reporting.summary import (
    ResultRow,
    column_places,
    cost_rows,
    dataset_facts,
    fixed,
    headline,
    interval,
    main_method,
    method_looks,
    number,
    percent,
    random_return,
    result_rows,
    signed_percent,
    source_rows,
    summary,
)

__all__ = ["MethodResult", "ReportInput", "write_report"]


def write_report(report: ReportInput, folder: Path) -> Path:
    """Write `index.html`, `summary.json`, `results.md` and `figures/` into `folder`; return the path of the page.

    Files appear whole or not at all, the page last; the same report gives the same bytes.
    """
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RciError(f"cannot write the report to {folder}: {error.strerror or error}.") from error
    pictures = {
        "results": figures.result_pictures(report),
        "trade-off": figures.trade_off_pictures(report),
        "paths": figures.path_pictures(report),
        "space": figures.space_pictures(report),
        "policy-films": figures.policy_film_pictures(report),
        "critics": figures.critic_pictures(report),
        "fields": figures.field_pictures(report),
        "films": figures.film_pictures(report),
        "episodes": figures.episode_pictures(report),
        "redistributor": figures.redistributor_pictures(report),
        "dataset": figures.dataset_pictures(report) + figures.demonstrator_pictures(report),
    }
    files: dict[str, bytes] = {}
    for picture in (picture for group in pictures.values() for picture in group):
        files[f"figures/{picture.name}.svg"] = picture.svg
        files[f"figures/{picture.name}.png"] = picture.png
    numbers = summary(report, figures=list(files))
    files["summary.json"] = (json.dumps(numbers, indent=1, allow_nan=False) + "\n").encode()
    files["results.md"] = result_table(report).encode()
    files["index.html"] = page(report, pictures).encode()
    for name, content in files.items():
        write_file(folder / name, content)
    return folder / "index.html"


def page(report: ReportInput, pictures: dict[str, list[Picture]]) -> str:
    """The whole page. `pictures` go by section."""
    sections = [
        ("results", "Results", _results(report, pictures["results"])),
        ("trade-off", "Safety against return", _trade_off(pictures["trade-off"])),
        ("paths", "Where the policies go", _paths(report, pictures)),
        ("critics", "Where the critics see cost", _critics(pictures["critics"])),
        ("fields", "Where the policies push", _fields(pictures["fields"])),
        ("redistribution", "Where the cost went", _redistribution(report, pictures)),
        ("dataset", "What was recorded", _dataset(report, pictures["dataset"])),
        ("run", "What was run", _run(report)),
    ]
    return document(
        report.title,
        f"Task {report.task}",
        headline(report),
        sections,
        "Every figure is also in <code>figures/</code> as SVG and PNG, every number in <code>summary.json</code>.",
    )


def _results(report: ReportInput, pictures: Sequence[Picture]) -> str:
    rows, style = result_rows(report), method_looks(report)
    if not rows:
        return ""
    places = column_places([row.mean_return for row in rows] + [row.return_until_violation for row in rows])
    content = (
        "<p>An evaluation episode violates if at least one of its steps is truly unsafe. A budget that is a "
        "number is the share of episodes that may do so. It counts as kept if the interval of every seed's policy lies "
        "below it, as not kept if all of them lie above it, and else as undecided. A percentile such as P30 is one of "
        "the training episodes' discounted costs, and no share of episodes. The threshold is what the cost critic was "
        "compared with.</p>"
    )
    if any(row.channels for row in rows):
        content += (
            "<p>There are several kinds of danger, and an episode violates if it meets any of them. A budget is one of "
            "each kind: it counts as kept if that of every kind is, and as not kept if that of some kind is not.</p>"
        )
    known, priced = bool(report.reference), any(row.multiplier is not None for row in rows)
    content += table(
        "Every method at every budget",
        (
            "method", "budget", "violation rate", "interval", "budget kept", "mean return", "of reward-only's",
            "return until violation", *(("possible", "share of the way") if known else ()), "threshold",
            *(("multiplier",) if priced else ()), "seeds", "episodes",
        ),
        [_result_cells(row, style[row.method], places, known, priced) for row in rows],
        note="Intervals: 95% Clopper-Pearson over the evaluation episodes of all seeds, for the mean of just these "
        "policies; how far policies differ is shown by the dots in the figures. Returns: mean over seeds ± standard "
        "error, over the full episode and until its first violation, where a monitor would stop it."
        + (" One seed alone has no standard error." if any(row.seeds == 1 for row in rows) else "")
        + (_kept_note(report) if any(row.return_kept is not None for row in rows) else "")
        + (_known_note(report) if known else ""),
    )  # fmt: skip
    content += matched_table(rows, style)
    return content + _by_channel(rows, style) + grid(pictures, "two") + _contrasts(rows, style)


def _kept_note(report: ReportInput) -> str:
    floor = random_return(report)
    counted = "" if floor is None else f", counted from what random actions earn ({number(floor)})"
    return f" Of reward-only's: how much of its mean return is left{counted}."


def _known_note(report: ReportInput) -> str:
    """What the columns about drivers who know the danger say."""
    seeds = max(entry.seeds for entry in report.reference)
    return (
        " Possible: the violation rate at which drivers who know the danger, trained online with the truth (rci "
        f"reference, {seeds} seed{'' if seeds == 1 else 's'}), earn at least as much; a dash where none earns so much. "
        "Share of the way: from reward-only (0%) to the best of them (100%), by the share of return kept, from random "
        "actions to the blind driver, less the violation rate. It is below 0 where a policy gives up more return than "
        "violations."
    )


def _by_channel(rows: Sequence[ResultRow], style: dict[str, Look]) -> str:
    """The same results for each kind of danger, where there are several."""
    lines = [(row, channel) for row in rows for channel in row.channels]
    if not lines:
        return ""
    return table(
        "By channel",
        ("method", "budget", "channel", "violation rate", "interval", "budget kept", "threshold", "multiplier"),
        [
            [
                method_name(row.method, style[row.method]), escape(channel.asked), escape(channel.channel),
                percent(channel.violation_rate), interval(channel), yes_no(channel.budget_kept),
                number(channel.threshold), number(channel.multiplier),
            ]
            for row, channel in lines
        ],
        note="Violation rate: episodes whose first violation was of this kind, which is what its budget bounds. "
        "Intervals as above; threshold and multiplier are means over seeds.",
    )  # fmt: skip


def _contrasts(rows: Sequence[ResultRow], style: dict[str, Look]) -> str:
    """Ratios and tests against the method that knows no budget."""
    compared = [row for row in rows if row.contrast is not None]
    if not compared:
        return ""
    return table(
        "Against reward-only",
        ("method", "budget", "violation ratio", "interval", "return: t", "return: p"),
        [_contrast_cells(row, style[row.method]) for row in compared],
        note="Violation rate divided by reward-only's, with a 95% bootstrap interval over episodes within seeds. "
        "Returns: Welch's t-test over seeds against reward-only; a small p means that the return differs. "
        "It needs at least two seeds.",
    )


def _contrast_cells(row: ResultRow, look: Look) -> list[str]:
    contrast = row.contrast
    if contrast is None:
        return []
    return [
        method_name(row.method, look),
        escape(row.asked),
        number(contrast.ratio),
        f"{number(contrast.ratio_low)}–{number(contrast.ratio_high)}",
        number(contrast.return_t),
        number(contrast.return_p),
    ]


def _result_cells(row: ResultRow, look: Look, places: int, known: bool, priced: bool) -> list[str]:
    both = (row.possible, row.share_of_way)
    shares = ["–" if share is None else signed_percent(share) for share in both]
    return [
        method_name(row.method, look),
        escape(row.asked),
        percent(row.violation_rate),
        interval(row),
        yes_no(row.budget_kept),
        _with_error(row.mean_return, row.return_error, places),
        _kept_cell(row),
        _with_error(row.return_until_violation, row.until_violation_error, places),
        *(shares if known else ()),
        number(row.threshold),
        *((number(row.multiplier),) if priced else ()),
        str(row.seeds),
        f"{row.episodes:,}",
    ]


def _kept_cell(row: ResultRow) -> str:
    told = "–" if row.return_kept is None else signed_percent(row.return_kept)
    return f"{told} <strong>does nothing</strong>" if row.idle else told


def _trade_off(pictures: Sequence[Picture]) -> str:
    if not pictures:
        return ""
    return "<p>What a tighter budget costs in return, and whether the budgets came true.</p>" + grid(
        pictures, "two"
    )


def _paths(report: ReportInput, pictures: dict[str, list[Picture]]) -> str:
    content = ""
    if pictures["paths"]:
        content += (
            "<p>Rollouts of the first seed's policy, for each method at its tightest and its loosest budget. A dot is "
            "the start, a cross the end.</p>"
            + grid(pictures["paths"], "four" if len(figures.task_views(report)) < 2 else "two")
        )
    if pictures["space"]:
        content += (
            "<p>The same in three dimensions, at the tightest budget. Paths that enter the danger stand out; dots are "
            "goals.</p>" + grid(pictures["space"], "two")
        )
    if pictures["policy-films"]:
        content += (
            "<p>One rollout of each method's first policy at its tightest budget, from left to right; nobody stops it. "
            "Under the frames, at the same moments, the reward of every step and the distance to the nearest danger; "
            "unsafe moments are shaded.</p>" + strips(pictures["policy-films"])
        )
    return content


def _critics(pictures: Sequence[Picture]) -> str:
    if not pictures:
        return ""
    return (
        "<p>The remaining cost that the cost critic of each method expects if its policy takes over at a point of the "
        "map, all else being equal. It is shown for the first policy at the tightest budget.</p>"
        + strips(pictures)
    )


def _fields(pictures: Sequence[Picture]) -> str:
    if not pictures:
        return ""
    return (
        "<p>What a policy does at a point of the map, all else being equal, and how much it expects to gain from there "
        "on; most of the map may be far from anything recorded. First without a budget, then from the loosest to the "
        "tightest: the tighter it is, the earlier the arrows should turn away from danger. Policies weigh cost "
        "differently, so compare shapes rather than values.</p>" + strips(pictures)
    )


def _redistribution(report: ReportInput, pictures: dict[str, list[Picture]]) -> str:
    method = main_method(report.costs)
    dense = f" Below it, the cost that {escape(method)} gives to every step." if method else ""
    exact = (
        " Then its sum so far, beside the exact chance that the episode is violated."
        if report.risk is not None and method
        else ""
    )
    content = (
        "<p>Recorded episodes picked by rule, not by hand: stopped ones at the quartiles of length, and one that was "
        "never stopped."
    )
    if pictures["films"]:
        content += (
            " Under the frames, at the same moments, the cost that each method gives to every step, blue where it is "
            "negative, and the distance to the nearest danger. Colours grow with the square root of the cost, so that "
            "small ones are seen beside a large one.</p>"
            + strips(pictures["films"])
            + "<p>The same episodes in numbers."
        )
    content += (
        f" On top, the cost as the label gives it.{dense}{exact} At the bottom, the distance to the nearest danger; "
        "truly unsafe steps are shaded, and the broken line is where danger begins.</p>"
    )
    content += grid(pictures["episodes"], "three")
    if report.costs:
        content += _cost_table(report) + grid(pictures["redistributor"], "two")
    return content


def _cost_table(report: ReportInput) -> str:
    """One line per set of step costs; a column that no method fills is left out."""
    rows, style = cost_rows(report), method_looks(report)
    columns = {
        "method": [method_name(row.method, style[row.method]) for row in rows],
        "return-equivalent": [yes_no("yes" if row.return_equivalent else "no") for row in rows],
        "largest gap": [number(row.largest_gap) for row in rows],
        "negative steps": [percent(row.negative_share) for row in rows],
        "on the first step": ["–" if row.first_step is None else signed_percent(row.first_step) for row in rows],
        "held-out accuracy": ["–" if row.held_out_accuracy is None else percent(row.held_out_accuracy) for row in rows],
        "calibration error": [number(row.calibration_error) for row in rows],
        "quality": [number(row.quality) for row in rows],
        "epochs": ["–" if row.epochs is None else f"{row.epochs:g}" for row in rows],
    }  # fmt: skip
    told = {name: column for name, column in columns.items() if set(column) != {"–"}}
    models = {"held-out accuracy", "calibration error", "quality"} & set(told)
    return table(
        "Step costs of every method",
        list(told),
        list(zip(*told.values())),
        note="Return-equivalent: in every episode the step costs sum to the episodic cost; the largest gap says how "
        "nearly. On the first step: how much of the cost of a stopped episode lies there, on average. Where it is "
        "nearly all, the model separates stopped episodes from others by who drives or by their length, and not by "
        "what was done."
        + (" Accuracy, calibration error and quality: on episodes held out from training." if models else ""),
    )


def _dataset(report: ReportInput, pictures: Sequence[Picture]) -> str:
    facts = dataset_facts(report)
    tiles = {
        "episodes": f"{facts.episodes:,}",
        "steps recorded": f"{facts.steps:,}",
        "steps kept": f"{facts.kept_steps:,}",
        "episodes stopped": percent(facts.stopped_share),
        "mean length": number(facts.mean_length),
        "mean return": number(facts.mean_return),
    }
    why = (report.labels.channel_cost > 0).mean(axis=0)
    tiles |= {f"stopped for {name}": percent(share) for name, share in zip(report.labels.channels, why)}
    terms = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in tiles.items())
    sources = table(
        "The behaviours that recorded the data",
        ("source", "episodes", "stopped", "mean length", "mean return"),
        [
            [
                escape(row.source), f"{row.episodes:,}", percent(row.stopped_share), number(row.mean_length),
                number(row.mean_return),
            ]
            for row in source_rows(report)
        ],
    )  # fmt: skip
    return f"<dl>{terms}</dl>" + grid(pictures, "two") + sources + _reach(report)


def _reach(report: ReportInput) -> str:
    """What a policy can choose from, against what was recorded; nothing where no learner needs proposals."""
    if not report.reach:
        return ""
    return table(
        "What a policy can choose from",
        (
            "recorded by",
            "nearest proposal",
            "its own draws",
            "spread of proposals",
            "of actions",
            "log-likelihood",
        ),
        [
            [
                escape(name),
                *(
                    number(own[k])
                    for k in ("nearest", "nearest_own", "spread_of_proposals", "spread_of_actions")
                ),
                number(own["log_likelihood"]),
            ]
            for name, own in report.reach.items()
        ],
        note="On episodes held out from the fit of the behaviour model, actions in [-1, 1]. Nearest proposal: from the "
        "recorded action to the nearest of 40; its own draws: the same for one more draw of the model, which is what "
        "it would be if the model were right. " + report.reach_note,
    )


def _run(report: ReportInput) -> str:
    settings, total = _flat(report.settings), sum(report.timings.values())
    command = escape(report.command)
    content = f'<p>This command repeats the run:</p><pre tabindex="0"><code>{command}</code></pre>'
    timings = {stage: _duration(seconds) for stage, seconds in report.timings.items()}
    for title, entries in (
        (f"Settings ({len(settings)})", settings),
        (f"Time per stage ({_duration(total)} in all)", timings),
        (f"Versions ({len(report.versions)})", report.versions),
    ):
        if entries:
            cells = [(escape(str(name)), escape(str(value))) for name, value in entries.items()]
            content += (
                f"<details><summary>{title}</summary>{table(title, ('name', 'value'), cells)}</details>"
            )
    return content


def _with_error(value: float, error: float | None, places: int) -> str:
    told = "" if error is None else f" <small>± {fixed(error, places)}</small>"
    return fixed(value, places) + told


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

import base64
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.data.types import Episode, Episodes, Labels, Oracle, Scores, StepCosts
from rci.reporting.figures.palette import LOOKS, OTHERS
from rci.reporting.html.markup import MARKS
from rci.reporting.numbers import column_decimals, number, tightness
from rci.reporting.run import page, task_pictures
from rci.reporting.run import pictures as pictures
from rci.reporting.run.contents import ChannelResult, KnownDanger, MethodResult, ReportInput
from rci.reporting.run.headline import headline
from rci.reporting.run.page import write_report
from rci.reporting.run.rows import result_row
from rci.tasks.base import View

INFO = {
    "held_out_accuracy": 0.931,
    "held_out_calibration_error": 0.034,
    "quality": 0.71,
    "epochs": 3,
    "calibration": [[0.1, 0.15, 20], [0.9, 0.85, 30]],
    "train_loss": [0.3, 0.2, 0.1],
    "held_out_loss": [0.3, 0.25, 0.2],
}
SECTIONS = (
    "Results",
    "Safety against return",
    "Where the policies go",
    "Where the cost went",
    "What was recorded",
)


def scores_of(violations: int, mean_return: float, episodes: int = 100) -> Scores:
    first = np.where(np.arange(episodes) < violations, 2, -1)
    returns = np.full(episodes, mean_return)
    return Scores(returns, 0.5 * returns, first, np.full(episodes, 6))


def result(
    method: str, budget: float, violations: list[int], returns: list[float], rollouts: Episodes | None = None
) -> MethodResult:
    """One method; the interval is made up: two percent points to each side."""
    rate = sum(violations) / (100 * len(violations))
    return MethodResult(
        method=method,
        budget=budget,
        scores=tuple(scores_of(v, r) for v, r in zip(violations, returns)),
        violation_interval=(max(0.0, rate - 0.02), min(1.0, rate + 0.02)),
        rollouts=rollouts,
        multipliers=() if math.isinf(budget) else tuple(2.0 for _ in violations),
    )


@pytest.fixture(scope="module")
def full() -> ReportInput:
    rng = np.random.default_rng(0)
    episodes = Episodes.from_list(
        [
            Episode(rng.normal(size=(7, 2)), rng.normal(size=(6, 1)), rng.normal(size=6), False, True)
            for _ in range(8)
        ]
    )
    episodes = replace(episodes, source=np.arange(8) % 2, sources=("ppo", "random"), task="field")
    unsafe = np.zeros((8, 6), bool)
    unsafe[:5, 3] = True
    labels = Labels.for_episodes(episodes, np.where(unsafe.any(axis=1), 3, -1))
    kept = labels.kept_lengths
    last = np.zeros(kept.sum())
    last[np.cumsum(kept) - 1] = labels.cost
    spread = np.repeat(labels.cost / kept, kept)
    return ReportInput(
        task="field",
        title="STOP & go",
        settings={"seed": 3, "learn": {"updates": 500, "budgets": [0.05, 0.2]}, "empty": {}},
        command="rci run field --seed 3",
        versions={"rci": "0.1.0"},
        timings={"collect": 1.5, "learn": 3700.0},
        episodes=episodes,
        oracle=Oracle(unsafe.ravel(), rng.uniform(size=48), episodes.lengths, episodes.hash),
        labels=labels,
        costs={
            "sparse": StepCosts(last, kept, labels.cost, True, "sparse", labels.hash),
            "rci": StepCosts(spread, kept, labels.cost, True, "rudder", labels.hash, info=INFO),
            "hazard": StepCosts(0.5 * spread, kept, labels.cost, False, "hazard", labels.hash),
        },
        risk=np.linspace(0, 1, kept.sum()),
        results=(
            result("rci", 0.05, [3, 4, 2], [1.02, 1.04, 1.00], episodes),
            result("rci", 0.2, [30, 20, 25], [1.2, 1.3, 1.1], episodes),
            result("reward-only", math.inf, [61, 60, 62], [1.5, 1.5, 1.5], episodes),
            result("sparse", 0.05, [4, 5, 6], [1.0, 1.1, 1.2]),
        ),
    )


@pytest.fixture(scope="module", autouse=True)
def world() -> Iterator[None]:
    """A stand-in for the tasks: one of them can be drawn."""
    tasks = {
        "field": SimpleNamespace(
            space=None,
            views=(View("", lambda obs: obs[..., :2], lambda axes: axes.set(xlim=(-3, 3), ylim=(-3, 3))),),
            scene=None,
            probe=None,
            danger_distance=0.0,
        ),
        "blind": SimpleNamespace(views=(), space=None, scene=None, probe=None, danger_distance=0.0),
    }
    module = ModuleType("rci.tasks")
    module.TASKS = tasks  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "rci.tasks", module)
        yield


@pytest.fixture(scope="module")
def written(full: ReportInput, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the full report."""
    return write_report(full, tmp_path_factory.mktemp("runs") / "demo" / "report").parent


class Reader(HTMLParser):
    """Collects tags, attributes and text; complains where tags do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if self.open[-1:] != ["style"] else ""


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader


def test_the_page_has_every_section_and_number(written: Path) -> None:
    text = read(written / "index.html").text.replace("\u2060", "")
    for expected in (
        *SECTIONS,
        "What was run",
        "STOP & go",
        "rci run field --seed 3",
        "learn.updates",
        "1 h 1 min",
        "With a budget of 0.05, rci violated in 3.0% of 300 evaluation episodes (1.0–5.0%) at a mean return of 1.02, ",
        "The budget was kept.",
        "Over 2 budgets: 1 kept, 1 not kept, 0 too close to tell.",
        "reward-only 61.0% (59.0–63.0%) at 1.50",
        "1.020 ± 0.012",  # standard deviation 0.02 over three seeds
        "0.510 ± 0.006",
        "93.1%",
        "0.710",
        "62.5%",  # five of eight episodes stopped
        "random",
    ):
        assert expected in text


def test_the_page_needs_nothing_from_outside(written: Path) -> None:
    reader = read(written / "index.html")
    for tag, attributes in reader.tags:
        assert tag not in ("script", "iframe", "object", "embed")
        for name in ("src", "href", "srcset", "action", "poster"):
            value = attributes.get(name) or "#"
            assert value.startswith(("data:", "#")), (tag, value)
    page_source = (written / "index.html").read_text(encoding="utf-8")
    assert "http://" not in page_source
    assert "https://" not in page_source
    assert not re.search(r"@import|url\(", page_source)


def test_the_page_is_accessible_and_fits_a_phone(written: Path) -> None:
    reader = read(written / "index.html")
    images = [attributes for tag, attributes in reader.tags if tag == "img"]
    assert len(images) >= 12
    assert all(len(image["alt"] or "") > 20 for image in images)
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in reader.tags if tag == "th")
    tables = [tag for tag, _ in reader.tags if tag in ("table", "caption", "thead")]
    assert tables.count("table") == tables.count("caption") == tables.count("thead")
    assert ("html", {"lang": "en"}) in reader.tags
    assert any(attributes.get("name") == "viewport" for _, attributes in reader.tags)
    source = (written / "index.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in source
    targets = {attributes.get("id") for _, attributes in reader.tags}
    links = [attributes["href"] for tag, attributes in reader.tags if tag == "a"]
    assert all((link or "")[1:] in targets for link in links)


def test_figures_are_files_as_well(written: Path) -> None:
    reader = read(written / "index.html")
    sources = [attributes["src"] or "" for tag, attributes in reader.tags if tag == "img"]
    inside = {base64.b64decode(source.split(",", 1)[1]) for source in sources}
    assert inside == {path.read_bytes() for path in (written / "figures").glob("*.svg")}
    listed = json.loads((written / "summary.json").read_text())["figures"]
    assert sorted(listed) == sorted(f"figures/{path.name}" for path in (written / "figures").iterdir())
    assert {path.suffix for path in (written / "figures").iterdir()} == {".svg", ".png"}


def test_the_summary_holds_the_numbers(written: Path) -> None:
    summary = json.loads((written / "summary.json").read_text())
    first = summary["results"][0]
    assert (first["method"], first["budget"], first["violation_rate"]) == ("reward-only", None, 0.61)
    rci = next(entry for entry in summary["results"] if entry["method"] == "rci")
    assert rci["violation_low"] == pytest.approx(0.01)
    assert rci["mean_return"] == pytest.approx(1.02)
    assert rci["return_error"] == pytest.approx(0.02 / math.sqrt(3))
    assert rci["multiplier"] == 2.0
    assert summary["dataset"]["stopped"] == 5
    assert [entry["return_equivalent"] for entry in summary["costs"]] == [True, False, True]
    assert summary["settings"]["learn"]["budgets"] == [0.05, 0.2]


def test_the_same_report_gives_the_same_bytes(full: ReportInput, written: Path, tmp_path: Path) -> None:
    write_report(full, tmp_path)
    first, second = (
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (written, tmp_path)
    )
    assert first == second


def test_names_are_escaped(full: ReportInput, tmp_path: Path) -> None:
    evil = '<script>alert("&")</script>'
    report = replace(
        full,
        title=evil,
        command=evil,
        settings={evil: evil},
        versions={evil: evil},
        episodes=replace(full.episodes, sources=(evil, "random")),
        costs={evil: full.costs["rci"]},
        results=(result(evil, 0.05, [1], [1.0], full.episodes),),
    )
    reader = read(write_report(report, tmp_path))
    assert "script" not in {tag for tag, _ in reader.tags}
    assert reader.text.count(evil) >= 6
    assert (tmp_path / "figures" / "paths-01-script-alert-script.svg").is_file()


@pytest.mark.parametrize("task", ["blind", "of-a-user"])
def test_tasks_that_cannot_be_drawn_have_no_paths(full: ReportInput, task: str) -> None:
    report = replace(full, task=task)
    assert task_pictures.path_pictures(report) == []
    assert "Where the policies go" not in page.page(report, defaultdict(list))


def test_the_least_that_a_report_can_hold(full: ReportInput, tmp_path: Path) -> None:
    bare = replace(full, settings={}, versions={}, timings={}, costs={}, risk=None, results=())
    text = read(write_report(bare, tmp_path)).text
    assert "No policy was evaluated." in text
    assert "Safety against return" not in text
    assert "What was recorded" in text


@pytest.mark.parametrize(
    ("info", "expected"), [({}, 0), ({"quality": None, "calibration": []}, 0), ({"held_out_loss": [0.2]}, 1)]
)
def test_a_redistributor_may_say_little_about_itself(
    full: ReportInput, info: dict[str, object], expected: int
) -> None:
    report = replace(full, costs={"rci": replace(full.costs["rci"], info=info)})
    assert len(pictures.redistributor_pictures(report)) == expected
    source = page.page(report, defaultdict(list))
    assert "return-equivalent" in source
    assert "held-out accuracy" not in source


def test_one_seed_no_violation_no_budget(full: ReportInput, tmp_path: Path) -> None:
    single = replace(full, results=(result("reward-only", math.inf, [0], [-3.5]),))
    text = read(write_report(single, tmp_path)).text.replace("\u2060", "")
    assert (
        "reward-only violated in 0.0% of 100 evaluation episodes (0.0–2.0%) at a mean return of −3.50."
        in text
    )
    assert "One seed alone has no standard error." in text
    assert not (tmp_path / "figures" / "budgets.svg").exists()
    [entry] = json.loads((tmp_path / "summary.json").read_text())["results"]
    assert entry["return_error"] is None


def test_undecided_budget(full: ReportInput) -> None:
    report = replace(full, results=(result("rci", 0.05, [4], [1.0]),))
    assert headline(report)[1] == "Whether the budget was kept, this many episodes cannot tell."


def test_a_killed_writer_leaves_the_old_file(
    full: ReportInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.html"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(RciError, match=r"cannot write .*index\.html"):
        write_file(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_a_file_is_refused(full: ReportInput, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(RciError, match="cannot write the report"):
        write_report(full, tmp_path / "taken")


def test_parts_of_different_runs_are_refused(full: ReportInput) -> None:
    other = Labels(np.array([-1]), np.zeros(1), np.array([6]), "")
    with pytest.raises(RciError, match="labels of this report belong to other episodes"):
        replace(full, labels=other)
    with pytest.raises(RciError, match="risk must have one number"):
        replace(full, risk=np.zeros(3))
    with pytest.raises(RciError, match="has no scores"):
        MethodResult("rci", 0.1, (), (0.0, 1.0))
    with pytest.raises(RciError, match="two shares in order"):
        MethodResult("rci", 0.1, (scores_of(1, 1.0),), (0.5, 0.2))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.2345, "1.23"),
        (-0.5, "−0.500"),
        (60.0, "60.0"),
        (12345.6, "12,346"),
        (3.3e-16, "3.3e-16"),
        (math.inf, "∞"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_as_people_read_them(value: float | None, text: str) -> None:
    assert number(value) == text


def test_columns_have_one_number_of_decimals() -> None:
    assert [column_decimals(v) for v in ([1.5, 0.2], [-42.0], [12345.0], [0.004], [0.0])] == [3, 2, 0, 6, 3]


def test_every_marker_has_its_mark_in_tables() -> None:
    assert {look.marker for look in (*LOOKS.values(), *OTHERS)} == set(MARKS)


def test_a_percentile_is_shown_but_not_judged(full: ReportInput, tmp_path: Path) -> None:
    first = full.results[0]
    percentile = replace(first, method="rci", budget=None, asked="P30", threshold=0.4)
    report = replace(full, results=(percentile, replace(percentile, asked="P10", threshold=0.4)))
    page = write_report(report, tmp_path).read_text()
    assert "P30" in page
    rows = json.loads((tmp_path / "summary.json").read_text())["results"]
    assert [(row["asked"], row["budget"], row["budget_kept"]) for row in rows] == [
        ("P10", None, ""),
        ("P30", None, ""),
    ]
    assert not (tmp_path / "figures" / "budgets.svg").exists()


def test_a_budget_is_kept_only_if_every_policy_keeps_it(full: ReportInput) -> None:
    result = next(r for r in full.results if r.budget == 0.05)
    for intervals, verdict in (
        (((0.0, 0.02), (0.01, 0.05)), "yes"),
        (((0.0, 0.02), (0.06, 0.09)), "undecided"),
        (((0.07, 0.2), (0.06, 0.09)), "no"),
    ):
        assert result_row(replace(result, seed_intervals=intervals)).budget_kept == verdict


def test_the_markdown_table_has_a_line_per_result(full: ReportInput, tmp_path: Path) -> None:
    write_report(full, tmp_path)
    lines = (tmp_path / "results.md").read_text().splitlines()
    assert len(lines) == 2 + len(full.results)
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith("| reward-only | none | 61.0% |")


def channel(name: str, budget: float | None, *seeds: tuple[float, float], rate: float = 0.1) -> ChannelResult:
    asked = "P30" if budget is None else str(budget)
    return ChannelResult(name, budget, asked, 0.05, (1.0, 3.0), (rate, rate), (0.08, 0.12), seeds)


@pytest.mark.parametrize(
    ("channels", "verdict"),
    [
        ((channel("near", 0.2, (0.0, 0.1)), channel("off", 0.3, (0.1, 0.2))), "yes"),
        ((channel("near", 0.2, (0.0, 0.1)), channel("off", 0.05, (0.1, 0.2))), "no"),
        ((channel("near", 0.15, (0.1, 0.2)), channel("off", 0.05, (0.1, 0.2))), "no"),
        ((channel("near", 0.2, (0.0, 0.1)), channel("off", 0.05, (0.01, 0.2))), "undecided"),
        ((channel("near", 0.2, (0.0, 0.1)), channel("off", 0.2, (0.0, 0.1), (0.3, 0.4))), "undecided"),
        ((channel("near", 0.2, (0.0, 0.1)), channel("off", math.inf, (0.9, 1.0))), "yes"),
        ((channel("near", None, (0.0, 0.1)), channel("off", math.inf, (0.9, 1.0))), ""),
    ],
)
def test_a_budget_is_kept_if_it_is_in_every_channel(
    channels: tuple[ChannelResult, ...], verdict: str
) -> None:
    """The first interval of a channel is its first seed's; rows are kept, not kept, or undecided by all of them."""
    asked = "near=0.2,off=0.3"
    row = result_row(replace(result("rci", 0.05, [3], [1.0]), budget=None, asked=asked, channels=channels))
    assert row.budget_kept == verdict
    assert math.isnan(row.budget)
    assert [entry.multiplier for entry in row.channels] == [2.0, 2.0]


def test_the_page_tells_results_by_channel(full: ReportInput, tmp_path: Path) -> None:
    own = (
        channel("near", 0.05, (0.01, 0.04), rate=0.03),
        channel("off", math.inf, (0.3, 0.5), rate=0.4),
    )
    mine = replace(full.results[0], budget=None, asked="near=0.05,off=inf", channels=own, multipliers=())
    report = replace(full, results=(mine, full.results[2]))
    folder = write_report(report, tmp_path / "report").parent
    html = (folder / "index.html").read_text()
    assert "<caption>By channel</caption>" in html
    assert "<td>near</td><td>3.0%</td>" in html
    assert "<td>none</td><td>off</td><td>40.0%</td>" in html
    assert "By kind of danger: near 3.0%, off 40.0%." in headline(report)
    rows = json.loads((folder / "summary.json").read_text())["results"]
    assert rows[1]["channels"][0]["violation_rate"] == 0.03
    assert rows[0]["channels"] == []
    assert "| rci | none | off | 40.0% |" in (folder / "results.md").read_text()
    assert "By channel" not in page.page(full, defaultdict(list))


def test_a_report_of_costs_with_channels_can_be_drawn(full: ReportInput, tmp_path: Path) -> None:
    """Costs are summed over their channels in the figures of episodes."""
    why = np.stack([full.labels.stopped, np.arange(8) < 2], axis=-1).astype(float)
    labels = replace(full.labels, cost=why, channels=("near", "off"))
    kept = labels.kept_lengths
    spread = np.repeat(why / kept[:, None], kept, axis=0)
    costs = StepCosts(spread, kept, why, True, "rudder", labels.hash, channels=labels.channels)
    report = replace(full, labels=labels, costs={"rci": costs}, risk=None)
    html = write_report(report, tmp_path / "report").read_text()
    assert "stopped for near</dt><dd>62.5%" in html
    assert "stopped for off</dt><dd>25.0%" in html


def test_budgets_by_channel_have_an_order() -> None:
    budgets = ["a=0.1,b=0.2", "a=0.1,b=0.1", "a=inf,b=0.1", "a=P10,b=0.1", "a=P30,b=0.1"]
    assert sorted(budgets, key=tightness) == [budgets[i] for i in (1, 0, 3, 4, 2)]


def test_the_page_holds_policies_against_what_is_possible(full: ReportInput, tmp_path: Path) -> None:
    known = KnownDanger("informed", 9.0, 3, 0.0123, 0.0, 0.02, 4.5, 4.4, 4.6, 4.4)
    results = tuple(replace(one, possible=0.011, share_of_way=-0.25) for one in full.results)
    text = write_report(replace(full, reference=(known,), results=results), tmp_path).read_text()
    assert "What is possible when the danger is known: 1.2% at 4.50." in text
    assert "share of the way" in text
    assert text.count("−25.0%") == len(results)
    assert json.loads((tmp_path / "summary.json").read_text())["reference"][0]["violation_rate"] == 0.0123
    assert "share of the way" not in write_report(full, tmp_path / "without").read_text()

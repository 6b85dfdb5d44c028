import re
from dataclasses import replace

import numpy as np
import pytest

from rci.data.errors import RciError
from rci.data.types import Episode, Episodes, Labels, Oracle, StepCosts
from rci.reporting.comparison import figures as comparison_figures
from rci.reporting.comparison.page import headline, write_comparison
from rci.reporting.comparison.results import (
    FIGURES,
    ComparisonInput,
    VariantResult,
    broken,
    markdown,
    text_table,
)
from rci.reporting.figures.palette import LOOKS, OTHERS, variant_looks

NAMES = ["rudder", "rudder:loss=prefix", "uniform", "mine:shift=0.25:members=3"]
STEPS = 6


def labels_of(stops: list[int], channels: tuple[str, ...] = ()) -> Labels:
    rng = np.random.default_rng(0)
    episodes = Episodes.from_list(
        [
            Episode(rng.normal(size=(STEPS + 1, 2)), np.ones((STEPS, 1)), np.ones(STEPS), False, True)
            for _ in stops
        ]
    )
    severity = None
    if channels:
        severity = np.eye(2)[np.arange(len(stops)) % 2]
    return Labels.for_episodes(episodes, stops, severity, channels)


def costs_of(labels: Labels, seed: int, exact: bool = True, info: dict | None = None) -> StepCosts:
    """Random costs whose sums are made exact on the first step."""
    kept, rng = labels.kept_lengths, np.random.default_rng(seed)
    cost = rng.normal(size=(int(kept.sum()), labels.channel_cost.shape[1]))
    begin = np.cumsum(kept) - kept
    cost[begin] += labels.channel_cost - np.add.reduceat(cost, begin) + (0.0 if exact else 1.0)
    shape = cost if labels.channels else cost[:, 0]
    return StepCosts(
        shape, kept, labels.cost, exact, "rudder", labels.hash, info=info or {}, channels=labels.channels
    )


def result_of(name: str, rise: tuple[float, ...] = (0.2, 0.4), exact: bool = True) -> VariantResult:
    values: dict[str, tuple[float, ...]] = dict.fromkeys(FIGURES, ())
    values |= {"rise_correlation": rise, "time_correlation": (0.5,) * 2, "largest_gap": (0.0, 1e-9)}
    half = {key: 0.05 if len(value) > 1 else None for key, value in values.items()}
    return VariantResult(name, name.split(":")[0], exact, 2, values, half)


TABLE = [[-0.2, 0.1, 30], [0.25, 0.3, 10], [0.9, 1.0, 2]]


def comparison_of(
    names: list[str] = NAMES,
    oracle: bool = True,
    rise: tuple[float, ...] = (0.2, 0.4),
    stops=(4, -1, 0, 1, 2, 3),
) -> ComparisonInput:
    labels = labels_of(list(stops))
    count = len(stops) * STEPS
    truth = Oracle(
        np.arange(count) % STEPS == 4, np.linspace(-1, 5, count), labels.lengths, labels.episodes_hash
    )
    infos = [
        {"calibration": TABLE},
        {"by_channel": {"a": {"calibration": TABLE}, "b": {"calibration": TABLE}}},
    ]
    return ComparisonInput(
        task="nowhere",
        command="rci redistribute e l --compare <b>",
        versions={"rci": "0"},
        labels=labels,
        oracle=truth if oracle else None,
        danger=0.5,
        costs={
            name: costs_of(labels, i, exact="mine" not in name, info=infos[i] if i < 2 else {})
            for i, name in enumerate(names)
        },
        results=tuple(result_of(name, rise, exact="mine" not in name) for name in names),
        meanings=dict.fromkeys((*FIGURES, "return_equivalent"), "a meaning"),
    )


def test_variants_look_different_and_known_ones_as_in_a_report() -> None:
    names = ["sparse", "rudder", *(f"rudder:hidden={i}" for i in range(9)), "oracle"]
    looks = variant_looks(names)
    assert list(looks) == names
    assert len({look.color for look in looks.values()}) == len(set(looks.values())) == 12
    assert looks["rudder"] == LOOKS["rci"]
    assert looks["sparse"] == LOOKS["sparse"]
    assert len(variant_looks([f"m{i}" for i in range(20)])) == 20
    assert len(set(variant_looks([f"m{i}" for i in range(12)]).values())) == 12 < len(LOOKS) + len(OTHERS)


@pytest.mark.parametrize("oracle", [True, False])
def test_episodes_in_columns_and_variants_in_rows(oracle: bool) -> None:
    comparison = comparison_of(oracle=oracle)
    figure = comparison_figures.episode_costs(comparison, variant_looks(NAMES))
    rows = len(NAMES) + 1 + oracle
    assert len(figure.axes) == 3 * rows
    told = [text.get_text() for axes in figure.axes for text in axes.texts]
    expected = ["cost of the label", *NAMES[:3], f"{NAMES[3]}  (sums not exact)"]
    assert told == expected + ["distance to the nearest danger"] * oracle
    heights = [bar.get_height() for bar in figure.axes[3].patches]
    np.testing.assert_array_equal(heights, comparison.costs["rudder"].per_episode()[3])
    low, high = figure.axes[3].get_ylim()
    assert low < min(heights)
    assert high > max(heights)


def test_the_whole_distance_is_in_sight() -> None:
    comparison = comparison_of()
    figure = comparison_figures.episode_costs(comparison, variant_looks(NAMES))
    low, high = figure.axes[-1].get_ylim()
    for axes in figure.axes[-3:]:
        drawn = axes.lines[0].get_ydata()
        assert low < min(drawn) <= max(drawn) < high


@pytest.mark.parametrize(("stops", "columns"), [((2,), 1), ((2, 3), 1), ((1, -1), 2)])
def test_few_episodes(stops: tuple[int, ...], columns: int) -> None:
    comparison = comparison_of(["rudder"], stops=stops)
    assert len(comparison_figures.episode_costs(comparison, variant_looks(["rudder"])).axes) == 3 * columns


def test_channels_are_added_up() -> None:
    labels = labels_of([4, -1, 2, 3], ("near", "fast"))
    costs = costs_of(labels, 0)
    np.testing.assert_allclose(
        comparison_figures.episodes_of(costs, [2])[0], costs.per_episode()[2].sum(axis=1)
    )


def test_reliability_of_channels_is_pooled_by_hand() -> None:
    info = {
        "by_channel": {
            "a": {"calibration": [[0.1, 0.0, 10], [0.55, 0.5, 4]]},
            "b": {"calibration": [[0.15, 0.4, 30]]},
        }
    }
    np.testing.assert_allclose(comparison_figures.pooled(info), [[0.1375, 0.3, 40], [0.55, 0.5, 4]])
    assert comparison_figures.pooled({}) is None
    assert comparison_figures.pooled({"by_channel": {"a": {}}}) is None


def test_no_calibration_where_nothing_is_predicted() -> None:
    comparison = comparison_of(["rudder"], oracle=False, stops=(1,))
    silent = replace(comparison, costs={"rudder": replace(comparison.costs["rudder"], info={})})
    assert set(comparison_figures.pictures(silent)) == {"episodes", "correlations"}


def test_a_line_per_variant_that_predicts() -> None:
    tables = {name: comparison_figures.pooled({"calibration": TABLE}) for name in NAMES[:2]}
    figure = comparison_figures.reliability_lines(tables, variant_looks(NAMES))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == NAMES[:2]
    assert len(figure.axes[0].lines) == 1 + 2
    low, high = figure.axes[0].get_xlim()
    assert low < -0.2
    assert high > 1.0


def test_no_rise_where_the_risk_is_not_known() -> None:
    comparison = comparison_of(rise=())
    figure = comparison_figures.correlation_dots(comparison.results, variant_looks(NAMES))
    assert [axes.get_title() for axes in figure.axes] == ["Time correlation"]
    assert "not known" in headline(comparison)[0]
    assert "rise correlation" not in markdown(comparison.results)


def test_a_headline_claims_no_more_than_the_interval() -> None:
    assert headline(comparison_of())[0].startswith("rudder follows")
    assert headline(comparison_of(rise=(-0.02, 0.02)))[0].startswith("No variant is sure")


def test_long_names_are_broken_and_never_lost() -> None:
    name = "rudder:loss=prefix:epochs=100:learning_rate=0.0001:" + "x" * 60
    lines = broken(name).split("\n")
    assert "".join(lines) == name
    assert max(map(len, lines)) <= 26
    assert broken("rudder") == "rudder"


def test_tables_say_whose_sums_are_exact() -> None:
    results = comparison_of().results
    lines = markdown(results).splitlines()
    assert lines[0].startswith("| variant | exact sums | seeds | rise correlation |")
    assert lines[2].startswith("| rudder | yes | 2 | 0.300 ± 0.050 |")
    assert lines[5].startswith("| mine:shift=0.25:members=3 | no |")
    assert "held-out accuracy" not in lines[0]  # nobody has one
    text = text_table(results).splitlines()
    assert len(text) == 2 + len(results)
    assert len({len(line) for line in text}) == 1
    narrow = text_table(results, 60).splitlines()
    assert max(map(len, narrow[:-1])) <= 60
    assert narrow[-1] == "also in the page: time correlation, largest gap"


def test_the_page_stands_alone(tmp_path) -> None:
    comparison = comparison_of()
    path = write_comparison(comparison, tmp_path / "out")
    text = path.read_text()
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert text.count("<img ") == 3
    figures = sorted(file.name for file in (tmp_path / "out" / "figures").iterdir())
    assert figures == [
        f"{name}.{end}" for name in ("calibration", "correlations", "episodes") for end in ("png", "svg")
    ]


def test_costs_of_other_labels_are_refused() -> None:
    comparison = comparison_of()
    with pytest.raises(RciError, match="same order"):
        replace(comparison, results=comparison.results[1:])
    with pytest.raises(RciError, match="'rudder' belong to other labels"):
        replace(comparison, labels=labels_of([1, 2, 3, 4, 5, -1]))

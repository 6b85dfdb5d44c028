"""The file of a sweep: what it may say, the points that it stands for, and every mistake in it."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rci.data.errors import RciError
from rci.studies.sweep.grid import combinations, identity, parse_grid, points_of, read_grid, values_text
from rci.studies.sweep.plan import plan_points

POINT = 'task = "point"\n'


def grid_of(tmp_path: Path, text: str):
    file = tmp_path / "grid.toml"
    file.write_text(text)
    return read_grid(file)


def test_the_points_are_the_product_in_the_order_of_the_file(tmp_path):
    grid = grid_of(
        tmp_path,
        POINT
        + """
        [settings]
        learn.updates = 70
        [settings.collect]
        episodes = 90
        [grid]
        "label.noise" = ["clean", "noisy"]
        learn.method = ["bcq-lagrangian", "cdt"]
        seed = [3, 1]
        [[exclude]]
        label.noise = "noisy"
        "learn.method" = "cdt"
        """,
    )
    points = points_of(grid)
    assert [tuple(point.values.values()) for point in points] == [
        ("clean", "bcq-lagrangian", 3), ("clean", "bcq-lagrangian", 1), ("clean", "cdt", 3), ("clean", "cdt", 1),
        ("noisy", "bcq-lagrangian", 3), ("noisy", "bcq-lagrangian", 1),
    ]  # fmt: skip
    assert points[2].name == "label.noise=clean, learn.method=cdt, seed=3"
    config = points[5].config
    assert (config.label.noise, config.learn["method"], config.seed) == ("noisy", "bcq-lagrangian", 1)
    assert all(p.config.collect.episodes == 90 and p.config.learn["updates"] == 70 for p in points)
    assert points[0].config.learn["test_candidates"] == 32  # of the preset
    assert "test_candidates" not in points[2].config.learn  # cdt has none


def test_tasks_presets_lists_and_whole_sections_are_values_too(tmp_path):
    text = """
        [settings]
        learn.method = "bcq-lagrangian"
        [grid]
        task = ["point", "highway"]
        preset = ["quick", "paper"]
        "compare.budgets" = [[0.1, "P30"], [inf]]
        redistribute = [{method = "rudder", epochs = 7}, {method = "uniform"}]
        """
    points = points_of(grid_of(tmp_path, text))
    assert len(points) == 16
    assert [point.config.task for point in points] == ["point"] * 8 + ["highway"] * 8
    assert {point.config.collect.episodes for point in points[:8]} == {1000, 5000}
    assert points[2].config.compare.budgets == (float("inf"),)
    assert points[0].config.redistribute["epochs"] == 7
    assert points[1].config.redistribute == {"method": "uniform"}  # the preset's epochs are not its
    assert points[2].name.endswith('compare.budgets=["inf"], redistribute={"method": "rudder", "epochs": 7}')


def deep(opening: str, closing: str, times: int = 100_000) -> str:
    return POINT + "[grid]\nseed = " + opening * times + closing * times


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task = ", "cannot be read: Invalid value"),
        (POINT + "[grid]\nseed = [0]\n[lern]\nupdates = 3", "unknown key of .*grid.toml 'lern'.*Known: exclude, grid"),
        ("[grid]\nseed = [0]", 'names no task; write task = "point"'),
        (POINT, r"has no \[grid\]"),
        (POINT + "[grid]", r"has no \[grid\]"),
        (POINT + "grid = 3", "grid in .* must be a table"),
        ("task = 3\n[grid]\nseed = [0]", "task in .* must be a text, not 3"),
        ("[grid]\ntask = [3]", "task in .* must be a text, not 3"),
        (POINT + "[grid]\ntask = ['point']", "gives task both as one value and in"),
        ("task = 'piont'\n[grid]\nseed = [0]", r"point 1 of 1 \(seed=0\): unknown task 'piont'. Did you mean 'point'"),
        (POINT + "preset = 'quik'\n[grid]\nseed = [0]", "unknown preset of point 'quik'. Did you mean 'quick'"),
        (POINT + "[grid]\nsead = [0]", r"unknown setting in \[grid\] 'sead'. Did you mean 'seed'"),
        (POINT + "[grid]\nlearn.update = [3]", "unknown setting of learn 'update'. Did you mean 'updates'"),
        (POINT + "[grid]\nppo.steps = [3]", "unknown setting of ppo 'steps'"),
        (POINT + "[grid]\nbehaviour.hiden = [3]", "unknown setting of behaviour 'hiden'. Did you mean 'hidden'"),
        (POINT + "[grid]\n'collect.' = [3]", "unknown setting of collect ''"),
        (POINT + "[grid]\ncollect.episode = [3]", "unknown setting of collect 'episode'. Did you mean 'episodes'"),
        (POINT + "[grid]\nseed.first = [3]", "seed has no settings of its own"),
        (POINT + "[grid]\nseed = 3", "seed in .* must be a list of values, not 3"),
        (POINT + "[grid]\nlearn = {}", "learn in .* must be a list of values"),
        (POINT + "[grid]\nseed = []", "seed in .* is an empty list"),
        (POINT + "[grid]\nseed = [0, 1, 0]", "seed in .* has the value 0 twice"),
        (POINT + "[grid]\nlearn.discount = [1, 1.0]", "has the value 1.0 twice"),
        (POINT + "[grid]\nseed = [0]\n'seed' = [1]", "cannot be read"),
        (POINT + "[grid]\nlearn.method = ['cdt']\n'learn.method' = ['bc']", "names learn.method twice"),
        (POINT + "[grid]\nlearn = [{}]\n'learn.method' = ['bc']", "both learn and learn.method"),
        (POINT + "[settings]\nseed = 1\n[grid]\nseed = [0]", r"gives seed both in \[settings\] and in \[grid\]"),
        (POINT + "[grid]\nseed = [0]\n[[exclude]]", "number 1 of .* is empty"),
        (POINT + "exclude = 3\n[grid]\nseed = [0]", "exclude in .* must be tables"),
        (POINT + "[grid]\nseed = [0]\n[[exclude]]\nsead = 0", "unknown key of the grid in .* 'sead'. Did you mean"),
        (POINT + "[grid]\nseed = [0, 2]\n[[exclude]]\nseed = 1", "names seed=1, which is not in the grid; it has 0, 2"),
        (POINT + "[grid]\nseed = [0]\n[[exclude]]\nseed = 0", "nothing is left of the grid"),
        (POINT + "[grid]\nseed = [0, -1]", r"point 2 of 2 \(seed=-1\): the seed must be 0 to"),
        (POINT + "[grid]\nseed = [0, true]", "point 2 of 2 .*settings.seed must be a whole number, not True"),
        (POINT + "[grid]\nseed = [2020-01-01]", "settings.seed must be a whole number"),
        (POINT + "[grid]\nlearn = [3]", "point 1 of 1 .*settings.learn must be a table"),
        (POINT + "[grid]\ncompare.budgets = [0.1]", "settings.compare.budgets must be a list, not 0.1"),
        (POINT + "[grid]\nlearn.candidates = [3]\nlearn.method = ['cdt']", "unknown setting of cdt 'candidates'"),
        (POINT + "[settings]\nlern.updates = 3\n[grid]\nseed = [0]", "unknown setting in settings 'lern'"),
        (POINT + f"[grid]\nseed = {list(range(200))}\nlearn.updates = {list(range(1, 201))}", "40000 combinations"),
        (deep("[", "]"), "nested too deeply"),
        (deep("{a = ", "}"), "nested too deeply"),
        (POINT + f"[grid]\n{'a.' * 30}b = [1]", "nested too deeply"),
        (POINT + f"[grid]\n{'a.' * 5000}b = [1]", "a key has more than 64 parts"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(tmp_path, text, said):
    with pytest.raises(RciError, match=said) as found:
        points_of(grid_of(tmp_path, text))
    assert "\n" not in str(found.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(RciError, match="there is no grid file .*nowhere.toml"):
        read_grid(tmp_path / "nowhere.toml")
    with pytest.raises(RciError, match="cannot be read: .*directory"):
        read_grid(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(RciError, match="cannot be read: 'utf-8' codec"):
        read_grid(tmp_path / "bytes.toml")


NAMES = ("seed", "learn.updates", "collect.episodes", "evaluate.episodes")
axes = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True), min_size=1
)


@settings(deadline=None)
@given(axes, st.data())
def test_every_combination_is_there_once_but_for_those_that_are_excluded(own, data):
    chosen = data.draw(st.lists(st.sampled_from(list(itertools.product(*own.values()))), max_size=3))
    rules = [dict(zip(own, values)) for values in chosen]
    if rules and len(own) > 1:
        rules[0].pop(next(iter(own)))  # fewer keys leave out more
    found = combinations(parse_grid({"task": "point", "grid": own, "exclude": rules}, "it"))
    expected = [
        dict(zip(own, values))
        for values in itertools.product(*own.values())
        if not any(rule.items() <= dict(zip(own, values)).items() for rule in rules)
    ]
    assert found == expected


def test_what_means_the_same():
    assert identity(1) == identity(1.0) != identity(True)
    assert identity([0.1, {"a": 2}]) == identity((0.1, {"a": 2.0}))
    assert identity("1") != identity(1)
    assert values_text({"a": True, "b": "x", "c": [1, float("inf")]}) == 'a=true, b=x, c=[1, "inf"]'


def test_the_grids_of_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
    first, second = (tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL))
    plan = plan_points(points_of(read_grid(first)), Path("runs"))
    assert (len(plan.points), len(plan.policies), len(plan.jobs)) == (6, 18, 42)
    assert sum(map(len, plan.asked)) == 66
    assert len(points_of(read_grid({"task": "point", **second}))) == 50

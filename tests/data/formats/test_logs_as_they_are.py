"""Logs as robots leave them: gaps, times of all kinds, rewards that no column holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rci
from rci.data.errors import RciError
from rci.formats.importing import unfinished
from rci.formats.tables import text as text_tables
from rci.formats.tables.formula import parse_formula

MAPPING = {"obs": ["x"], "action": "u", "reward": 0, "episode": "run"}
GAPS = """run,x,u
a,1,0.1
a,,0.2
a,3,
a,4,
b,5,0.5
b,6,0.6
"""


def write(folder, text, name="log.csv"):
    (folder / name).write_text(text)
    return folder / name


def timed(rows, header="run,stamp,x,u,stop"):
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


# --- gaps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_gaps_are_counted_filled_or_left_out(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(text_tables, "BLOCK_ROWS", rows)
    path = write(tmp_path, GAPS)
    with pytest.raises(
        RciError, match=r"^2 values are missing in 2 rows: 'x' in .*line 3; 'u' in .*line 4\. "
    ):
        rci.read_logs(path, MAPPING)
    filled = rci.import_logs(path, {**MAPPING, "missing": "forward"})
    assert filled.episodes.obs.tolist() == [[1], [1], [3], [4], [5], [6], [6]]
    assert filled.episodes.action.tolist() == [[0.1], [0.2], [0.2], [0.5], [0.6]]
    assert filled.episodes.row.tolist() == [0, 1, 2, 4, 5]
    assert "gaps hold the value before, counted in rows: x in 1, u in 1" in filled.notes
    left = rci.import_logs(path, {**MAPPING, "missing": "drop-run"})
    assert left.episodes.keys == {"run": ["b"]}
    assert left.episodes.row.tolist() == [4, 5]
    assert "1 of 2 runs have gaps and are left out: a" in left.notes


def test_all_gaps_of_all_files_are_in_one_message(tmp_path):
    rows = "".join(f"a,{'' if i % 2 else i},{'' if i == 4 else 1},0\n" for i in range(20))
    write(tmp_path, f"run,x,u,r\n{rows}", "1.csv")
    write(tmp_path, "run,x,u,r\nb,1,1,\nb,1,1,1\n", "2.csv")
    with pytest.raises(RciError) as caught:
        rci.read_logs(tmp_path, {**MAPPING, "reward": "r"})
    assert str(caught.value).startswith(
        f"12 values are missing in 12 rows: 'x' in {tmp_path}/1.csv, lines 3, 5, 7 and 7 more; 'u' in "
        f"{tmp_path}/1.csv, line 6; 'r' in {tmp_path}/2.csv, line 2. "
    )


def test_gaps_that_nothing_can_fill(tmp_path):
    forward = {**MAPPING, "missing": "forward"}
    with pytest.raises(RciError, match=r"line 2, column 'x' is missing in the first row of a run.*drop-run"):
        rci.read_logs(write(tmp_path, "run,x,u\na,,1\na,2,1\n"), forward)
    with pytest.raises(RciError, match=r"all 1 runs have gaps, so none is left; say missing = \"forward\""):
        rci.read_logs(write(tmp_path, "run,x,u\na,,1\na,2,1\n"), {**MAPPING, "missing": "drop-run"})
    with pytest.raises(RciError, match="line 3, column 'stamp' is missing: a time is not repeated"):
        rci.read_logs(
            write(tmp_path, "run,stamp,x,u\na,2026-01-01,1,1\na,,2,1\na,2026-01-02,2,1\n"),
            {**forward, "time": "stamp"},
        )
    with pytest.raises(RciError, match="missing must be one of error, forward, drop-run, got 'backward'"):
        rci.read_logs(write(tmp_path, GAPS), {**MAPPING, "missing": "backward"})
    lists = '{"run": 1, "x": [1, 2], "u": 1, "z": 1}\n{"run": 1, "x": [1, 2], "u": 1}\n'
    with pytest.raises(RciError, match="repeats single numbers"):
        rci.read_logs(write(tmp_path, lists, "a.jsonl"), {**forward, "obs": ["x", "z"]})


def test_lists_are_repeated_too(tmp_path):
    lists = '{"run": 1, "x": [1, 2], "u": 1}\n{"run": 1, "u": 1}\n{"run": 1, "x": [3, 4], "u": 1}\n'
    found = rci.read_logs(write(tmp_path, lists, "a.jsonl"), {**MAPPING, "missing": "forward"})
    assert found.obs.tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]


# --- times ---------------------------------------------------------------------------------------------------------

START = 1_778_000_000  # seconds since 1970: 2026-05-05T16:53:20Z


@pytest.mark.parametrize(
    "stamp",
    [
        lambda ms: f"2026-05-05T16:53:{20 + ms / 1000:09.6f}Z",
        lambda ms: f"2026-05-05 18:53:{20 + ms / 1000:09.6f}+02:00",
        lambda ms: f"2026-05-05T16:53:{20 + ms / 1000:09.6f}",
        lambda ms: START + ms / 1000,
        lambda ms: START * 1000 + ms,
        lambda ms: (START * 1000 + ms) * 1000,
        lambda ms: (START * 1000 + ms) * 1_000_000,
    ],
)
def test_times_of_all_kinds_are_one_rate(tmp_path, stamp):
    """Rows at 0, 98 and 203 ms are steps at 10 Hz; nothing comes at 300 ms."""
    rows = [("a", stamp(0), 1, 0.1, 0), ("a", stamp(98), 2, 0.2, 0), ("a", stamp(203), 3, 0.3, 0),
            ("a", stamp(401), 4, 0.4, 1), ("b", stamp(7), 5, 0.5, 0)]  # fmt: skip
    found = rci.import_logs(write(tmp_path, timed(rows)), {**MAPPING, "time": "stamp", "rate": 10})
    assert found.episodes.obs.ravel().tolist() == [1, 2, 3, 3, 4, 4, 5, 5]
    assert found.episodes.action.ravel().tolist() == [0.1, 0.2, 0.3, 0.3, 0.4, 0.5]
    assert found.episodes.row.tolist() == [0, 1, 2, 2, 3, 4]
    assert found.episodes.signals.rate == 10
    assert found.stop_index.tolist() == [4, -1]
    assert found.episodes.keys["time"] == ["2026-05-05T16:53:20.000000Z", "2026-05-05T16:53:20.007000Z"]


def test_a_parquet_file_of_timestamps(tmp_path):
    times = np.datetime64("2026-05-05T16:53:20", "ns") + np.arange(3) * np.timedelta64(100_000_001, "ns")
    columns = {"run": ["a"] * 3, "stamp": times, "x": [1.0, 2.0, 3.0], "u": [0.1, 0.2, None]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = rci.read_logs(tmp_path / "a.parquet", {**MAPPING, "time": "stamp", "rate": 10})
    assert found.obs.ravel().tolist() == [1, 2, 3]
    assert found.keys["time"] == ["2026-05-05T16:53:20.000000Z"]


def test_resampling_by_hand(tmp_path):
    """Ten rows per second become two: the last row counts, rewards add up, no stop and no reward is lost."""
    rows = [("a", f"{t / 10:.1f}", t, t, int(t == 6), 1) for t in range(11)]
    rows.append(("a", "1.1", 11, "", "", ""))
    mapping = {**MAPPING, "time": "stamp", "time_unit": "s", "rate": 2, "reward": "r"}
    path = write(tmp_path, timed(rows, "run,stamp,x,u,stop,r"))
    found = rci.import_logs(path, mapping)
    # steps at 0, 0.5 and 1.0 s take the rows up to 0.2, 0.7 and 1.0 s; then what was seen at the end
    assert found.episodes.obs.ravel().tolist() == [2, 7, 10, 11]
    assert found.episodes.action.ravel().tolist() == [2, 7, 10]
    assert found.episodes.reward.tolist() == [3, 5, 3]
    assert found.stop_index.tolist() == [1]
    drawn = rci.read_logs(path, {**mapping, "linear": ["x"]})
    assert drawn.obs.ravel().tolist() == [0, 5, 10, 11]
    assert drawn.action.ravel().tolist() == [2, 7, 10]


def test_long_gaps_split_a_run(tmp_path):
    times = [0, 0.1, 0.2, 5.0, 5.1, 9.0]
    rows = [("a", t, i, i, int(i == 4)) for i, t in enumerate(times[:-1])] + [("a", times[-1], 9, "", "")]
    mapping = {**MAPPING, "time": "stamp", "time_unit": "s"}
    path = write(tmp_path, timed(rows))
    found = rci.import_logs(path, {**mapping, "rate": 10})
    assert found.episodes.lengths.tolist() == [3, 2]
    assert found.stop_index.tolist() == [-1, 1]
    assert found.episodes.keys == {"run": ["a", "a"], "time": ["0", "5"]}
    assert "1 runs are split where there is no row for more than 1 s" in found.notes
    assert "1 parts of runs have a single observation and no step: they are left out" in found.notes
    assert rci.read_logs(path, {**mapping, "rate": 10, "max_gap": 10}).lengths.tolist() == [90]
    assert rci.read_logs(path, {**mapping, "max_gap": 4.0}).lengths.tolist() == [3, 2]
    assert rci.read_logs(path, mapping).lengths.tolist() == [5]


@pytest.mark.parametrize(
    ("stamps", "mapping", "message"),
    [
        ([0, 1], {}, "0 may be seconds or anything else; say time_unit = 's'"),
        (["noon", "1"], {}, "line 2, column 'stamp' must be a time as .*, got 'noon'"),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:01"], {}, "line 3.* some times name their zone and others do not"),
        (["2026-01-01T00:00:01", "2026-01-01"], {}, "line 3, .*time goes back by 1 s in the middle of run 'a'; sort"),
        (["2026-01-01", "soon"], {}, "line 3.*must be a time.*'soon'"),
        (["9999-01-01", "9999-01-01"], {}, "'9999-01-01' is not a time of a recording"),
        ([1e300, 1e300], {"time_unit": "s"}, "is not a time"),
        ([0, 1e9], {"time_unit": "s", "rate": 10, "max_gap": 1e10}, "would become 10000000000 steps"),
        ([0, 1], {"time_unit": "h"}, "time_unit must be one of s, ms, us, ns"),
        ([0, 1], {"time": "", "rate": 10, "max_gap": 1}, "max_gap is about times; name their column"),
        ([0, 1], {"linear": ["x"], "time_unit": "s"}, "linear says how rows are resampled; say the rate"),
        ([0, 1], {"linear": ["u"], "rate": 1}, "unknown column of obs under linear"),
        ([0, 1], {"max_gap": 0}, "max_gap must be a positive number of seconds"),
        ([[0], [1]], {}, "must be a time, got a list|must be a time"),
    ],
)  # fmt: skip
def test_wrong_times(tmp_path, stamps, mapping, message):
    path = write(tmp_path, timed([("a", f'"{stamp}"', 1, 1, 0) for stamp in stamps]))
    with pytest.raises(RciError, match=message):
        rci.read_logs(path, {**MAPPING, "time": "stamp", **mapping})


def test_an_import_of_whole_runs_goes_on_where_it_was(tmp_path, monkeypatch):
    """Interrupted after every piece: runs that are left out and filled are counted once."""
    monkeypatch.setattr(unfinished, "COMMIT_BYTES", 1)
    monkeypatch.setattr(text_tables, "BLOCK_ROWS", 5)
    folder = tmp_path / "logs"
    folder.mkdir()
    for file in range(2):
        rows = [
            (f"{file}{run}", f"{t / 10 + (50 if t > 3 else 0):.1f}", "" if t == run == 2 else t, run, 0)
            for run in range(4)
            for t in range(7)
        ]
        write(folder, timed(rows), f"{file}.csv")
    mapping = {**MAPPING, "time": "stamp", "time_unit": "s", "rate": 10, "missing": "drop-run"}
    whole = rci.import_logs(folder, mapping)
    assert len(whole.episodes) == 12

    class Stopped(BaseException):
        pass

    calls = [0]

    def progress(share):
        calls[0] += 1
        if calls[0] % 2:
            raise Stopped

    heard = []
    for _ in range(20):
        try:
            done = rci.convert_dataset(
                folder, tmp_path / "out", progress=progress, mapping=mapping, continuing=heard.append
            )
            break
        except Stopped:
            continue
    assert heard
    assert done.episodes_hash == whole.episodes.hash
    assert done.notes == whole.notes
    assert "2 of 8 runs have gaps and are left out: 02, 12" in done.notes


# --- rewards -------------------------------------------------------------------------------------------------------

DRIVE = """run,t,pose x,v,turn,stop
a,0,0,1,-0.5,0
a,1,1,2,0.5,0
a,2,3,,,
b,0,10,4,0,0
b,1,14,2,1,0
"""


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize(
    ("reward", "values"),
    [
        (0, [0, 0, 0, 0]),
        (-1.5, [-1.5] * 4),
        ("v", [1, 2, 4, 2]),
        ("v * 0.1 - abs(turn)", [-0.4, -0.3, 0.4, -0.8]),
        ("-(v - 1) ** 2 / 2", [0, -0.5, -4.5, -0.5]),
        ("next(`pose x`) - `pose x`", [1, 2, 4, 0]),
        ("`pose x` - previous(`pose x`)", [0, 1, 0, 4]),
        ("min(v, 3, 2.5) + max(turn, 0)", [1, 2.5, 2.5, 3]),
        ("(v > 1) * 10 - 2 * (turn == 1)", [0, 10, 10, 8]),
        ("hypot(v, turn) - sqrt(v*v + turn**2)", [0, 0, 0, 0]),
    ],
)
def test_rewards_are_computed(tmp_path, reward, values, rows, monkeypatch):
    monkeypatch.setattr(text_tables, "BLOCK_ROWS", rows)
    mapping = {"obs": "pose x", "action": ["v", "turn"] if reward != "v" else "turn", "reward": reward}
    found = rci.read_logs(write(tmp_path, DRIVE), mapping)
    assert found.reward == pytest.approx(values)
    assert found.obs.ravel().tolist() == [0, 1, 3, 10, 14, 14]


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (
            "v * tturn",
            r"unknown column in .*the reward 'v \* tturn', position 5: 'tturn'\. Did you mean 'turn'",
        ),
        ("`pose  x`", "position 1: 'pose  x'. Did you mean 'pose x'"),
        ("v * `pose x", "a backtick at position 5 is not closed"),
        ("v +", "neither a column nor an expression: it cannot be read at position"),
        ("v if turn else 0", "what stands at position 1 is not arithmetic"),
        ("__import__('os')", "unknown function in .*, position 1: '__import__'"),
        ("abs(v, v)", "abs at position 1 takes 1 value, got 2"),
        ("max(v)", "max at position 1 takes 2 values, got 1"),
        ("'v' + 1", "'v' at position 1 is not a number"),
        ("v + 1e999", "inf at position 5 is not a number"),
        ("[x for x in v]", "what stands at position 1 is not arithmetic"),
        ("v.__class__", r"position 1: 'v\.__class__'"),
        ("(lambda: v)()", "what stands at position 1 is not arithmetic"),
        ("1 < v < 2", "what stands at position 1 is not arithmetic"),
        ("-" * 200 + "v", "nested more than 50 deep at position 52"),
        ("(" * 400 + "v" + ")" * 400, "cannot be read"),
        ("v + " * 400 + "v", "is longer than 1000 characters"),
        ("v / turn", r"line 5: the reward 'v / turn' is inf, as v = 4, turn = 0"),
        ("", "say reward = 0 in the mapping if nothing was earned, or an expression over columns"),
        (True, "reward must be the name of a column"),
        ("stamp + 1", "position 1: 'stamp'"),
    ],
)
def test_wrong_rewards(tmp_path, reward, message):
    with pytest.raises(RciError, match=message):
        rci.read_logs(
            write(tmp_path, DRIVE), {"obs": "pose x", "action": ["v", "turn"], "reward": reward, "stop": ""}
        )


def test_positions_count_characters():
    with pytest.raises(RciError, match="position 9: 'tempo'"):
        parse_formula("größe + tempo", ["größe"], "the reward")
    assert parse_formula("obs.x + `a b`*`c`", ["obs.x", "a b", "c"], "").columns == ("obs.x", "a b", "c")


def test_gaps_in_the_columns_of_a_reward(tmp_path):
    text = DRIVE.replace("a,1,1,2,0.5,0", "a,1,1,,0.5,0")
    mapping = {"obs": "pose x", "action": "turn", "reward": "v + 1"}
    with pytest.raises(RciError, match=r"1 value is missing in 1 row: 'v' in .*line 3"):
        rci.read_logs(write(tmp_path, text), mapping)
    found = rci.read_logs(write(tmp_path, text), {**mapping, "missing": "forward"})
    assert found.reward.tolist() == [2, 2, 5, 3]


def test_two_runs_of_one_name_are_refused(tmp_path):
    """One after the other in a file, apart in a file, and in two files: each with its cure."""
    one = "a,2026-01-01T00:00:00Z,1,1,0\na,2026-01-01T00:00:01Z,1,1,0\n"
    other = "b,2026-01-01T00:00:00Z,1,1,0\n"
    header = "run,stamp,x,u,stop\n"
    mapping = {**MAPPING, "time": "stamp"}
    with pytest.raises(RciError, match="time goes back.*or, if two runs have one name, give each its own"):
        rci.read_logs(write(tmp_path, header + one + one), mapping)
    with pytest.raises(
        RciError, match="line 5: episode 'a' was there before; its rows must be together, so sort"
    ):
        rci.read_logs(write(tmp_path, header + one + other + one), mapping)
    write(tmp_path, header + one, "log.csv")
    write(tmp_path, header + one, "other.csv")
    with pytest.raises(RciError, match=r"episode 'a' is in .*log\.csv already; .*episodes_per_file = true"):
        rci.read_logs(tmp_path, mapping)
    assert len(rci.read_logs(tmp_path, {**mapping, "episodes_per_file": True})) == 2


def test_a_mapping_file_may_hold_all_of_it(tmp_path):
    write(tmp_path, GAPS)
    toml = 'obs = "x"\naction = "u"\nreward = 0\nmissing = "forward"\nunits = { x = "m" }\n'
    (tmp_path / "columns.toml").write_text(toml)
    found = rci.read_logs(tmp_path / "log.csv", tmp_path / "columns.toml")
    assert found.labels_of("obs") == ["x [m]"]

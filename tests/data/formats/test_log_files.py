import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_files import assert_same, cut, judged, sample

import rci
from rci.data.errors import RciError
from rci.formats.tables import block
from rci.formats.tables import parquet as parquet_tables
from rci.formats.tables import readers as tables
from rci.formats.tables import text as text_tables
from rci.formats.writers import parquet

MAPPING = {"obs": ["x", "y"], "action": "u", "reward": "r"}
LOG = """run,t,x,y,u,r,stopped
a,0,0,1,0.5,1,
a,1,2,3,0.25,2,0
a,2,4,5,,,
b,0,6,7,-1,3,1
b,1,8,9,,,
"""


def write(path, text):
    path.write_text(text)
    return path


def as_jsonl(text):
    header, *lines = [line.split(",") for line in text.strip().splitlines()]
    rows = ({k: (v if k == "run" else float(v)) for k, v in zip(header, line) if v} for line in lines)
    return "\n".join(json.dumps(row) for row in rows) + "\n"


def as_parquet(path, text):
    header, *lines = [line.split(",") for line in text.strip().splitlines()]
    columns = {
        name: [line[i] if name == "run" else float(line[i]) if line[i] else None for line in lines]
        for i, name in enumerate(header)
    }
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def log(request, tmp_path):
    """A function that writes a table in one of the formats."""
    path = tmp_path / f"log.{request.param}"

    def make(text):
        if request.param == "parquet":
            return as_parquet(path, text)
        return write(path, text if request.param == "csv" else as_jsonl(text))

    return make


def check_log(found):
    assert found.episodes.obs.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert found.episodes.action.tolist() == [[0.5], [0.25], [-1]]
    assert found.episodes.reward.tolist() == [1, 2, 3]
    assert found.episodes.lengths.tolist() == [2, 1]
    assert not found.episodes.terminated.any()
    assert not found.episodes.truncated.any()
    assert found.stop_index.tolist() == [-1, 0]
    assert found.cost is None


def test_a_log_in_every_format(log):
    found = rci.import_logs(log(LOG), MAPPING)
    check_log(found)
    assert found.notes == ("columns that were guessed: episode = run, step = t, stop = stopped",)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_blocks_do_not_matter(log, rows, monkeypatch):
    for module in (block, text_tables, parquet_tables):
        monkeypatch.setattr(module, "BLOCK_ROWS", rows)
    check_log(rci.import_logs(log(LOG), MAPPING))


LISTS = [
    {"episode": 0, "t": 0, "obs": [0, 1], "action": [1, 2], "reward": 1},
    {"episode": 0, "t": 1, "obs": [2, 3], "action": [3, 4], "reward": 2},
    {"episode": 0, "t": 2, "obs": [4, 5]},
]


def write_lists(path, rows):
    if path.suffix == ".parquet":
        columns = ("episode", "t", "obs", "action", "reward")
        pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in columns}), path)
        return path
    return write(path, "\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
@pytest.mark.parametrize("rows", [1, 2])
def test_blocks_of_lists_do_not_matter(name, rows, tmp_path, monkeypatch):
    for module in (text_tables, parquet_tables):
        monkeypatch.setattr(module, "BLOCK_ROWS", rows)
    found = rci.import_logs(write_lists(tmp_path / name, LISTS))
    assert found.episodes.obs.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found.episodes.action.tolist() == [[1, 2], [3, 4]]  # though all of the last block are missing
    longer = [*LISTS[:1], {**LISTS[1], "obs": [2, 3, 4]}, {**LISTS[2], "obs": [2, 3, 4]}]
    with pytest.raises(RciError, match=r"a\.\w+, (line 2|row 1).*'obs' must be (a list of )?2 numbers.*got"):
        rci.import_logs(write_lists(tmp_path / name, longer))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_long_rows_make_small_blocks_and_endless_ones_none(name, tmp_path, monkeypatch):
    path = write(tmp_path / name, LOG if name == "a.csv" else as_jsonl(LOG))
    monkeypatch.setattr(text_tables, "BLOCK_TEXT", 20)
    assert max(len(found.lines) for found in tables.blocks_of(path, ["run", "u"])) < 5
    check_log(rci.import_logs(path, MAPPING))
    monkeypatch.setattr(text_tables, "LONGEST_LINE", 200)
    path.write_text(path.read_text() + "\0" * 1000)  # as after a power cut
    with pytest.raises(RciError, match=r"line \d is longer than 200 characters"):
        rci.import_logs(path, MAPPING)


def test_columns_without_a_name_are_not_read(tmp_path):
    lines = [f"{line},," for line in LOG.splitlines()]
    check_log(rci.import_logs(write(tmp_path / "a.csv", "\n".join(lines)), MAPPING))


def test_a_file_that_cannot_be_opened(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(RciError, match=r"cannot read .*a\.csv: Is a directory"):
        tables.count_rows(tmp_path / "a.csv")


def test_rows_of_later_blocks_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_tables, "BLOCK_ROWS", 2)
    ragged = [*LISTS[:2], {**LISTS[1], "t": 2}, {**LISTS[2], "t": 3, "obs": [1]}]
    with pytest.raises(RciError, match=r"row 3, column 'obs' must be a list of 2 numbers.*got 1"):
        rci.import_logs(write_lists(tmp_path / "a.parquet", ragged))


def test_a_mapping_in_a_file(tmp_path):
    mapping = write(tmp_path / "columns.toml", 'obs = ["x", "y"]\naction = ["u"]\nreward = "r"\nstop = ""\n')
    found = rci.import_logs(write(tmp_path / "log.csv", LOG), mapping)
    assert found.stop_index is None
    assert found.episodes.lengths.tolist() == [2, 1]


def test_everything_is_guessed(tmp_path):
    text = "episode,obs_10,obs_2,act0,act1,reward,done,timeout,cost\n0,10,2,5,6,1,0,0,0.5\n0,11,3,5,6,1,0,1,0.25\n"
    found = rci.import_logs(write(tmp_path / "log.csv", text))
    assert found.episodes.obs.tolist() == [[2, 10], [3, 11], [3, 11]]
    assert found.episodes.action.tolist() == [[5, 6], [5, 6]]
    assert found.cost.tolist() == [0.5, 0.25]
    assert found.episodes.truncated.tolist() == [True]
    assert found.episodes.terminated.tolist() == [False]
    assert found.notes == (
        "columns that were guessed: obs = obs_2 obs_10, action = act0 act1, reward = reward, episode = episode, "
        "terminated = done, truncated = timeout, cost = cost",
        "what was seen after the last step is not recorded in 1 of 1 episodes: their last observation is repeated in "
        "its place",
    )


def test_nested_and_listed_columns(tmp_path):
    rows = [
        {"obs": {"arm": [1, 2], "x": 3}, "action": [0.5, 0.5], "reward": 1, "stopped": False},
        {"obs": {"arm": [4, 5], "x": 6}, "action": [0.25, 0.5], "reward": 1, "stopped": True},
    ]
    write(tmp_path / "log.jsonl", "\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    for name in ("log.jsonl", "log.parquet"):
        found = rci.import_logs(tmp_path / name)
        assert found.episodes.obs.tolist() == [[1, 2, 3], [4, 5, 6], [4, 5, 6]]
        assert found.episodes.action.tolist() == [[0.5, 0.5], [0.25, 0.5]]
        assert found.stop_index.tolist() == [1]


def test_a_stop_that_only_one_line_mentions_is_seen(tmp_path):
    lines = [
        '{"obs": [1], "action": [2], "reward": 0}',
        '{"obs": [1], "action": [2], "reward": 0, "estop": true}',
    ]
    assert rci.import_logs(write(tmp_path / "log.jsonl", "\n".join(lines))).stop_index.tolist() == [1]


def test_a_folder_is_one_dataset(tmp_path):
    one = "t,obs,act,reward\n0,1,1,1\n1,2,1,1\n"
    write(tmp_path / "b.csv", one.replace("0,1,", "0,5,"))
    write(tmp_path / "a.csv", one)
    write(tmp_path / "notes.txt", "hello")
    found = rci.import_logs(tmp_path)
    assert found.episodes.obs[:, 0].tolist() == [1, 2, 2, 5, 2, 2]
    assert found.episodes.lengths.tolist() == [2, 2]
    assert any("not read: notes.txt" in note for note in found.notes)
    assert any("no column names the episodes" in note for note in found.notes)


def test_episodes_without_a_name_end_at_flags_and_restarts(tmp_path):
    text = "t,obs,action,reward,terminated\n0,1,1,1,0\n1,2,1,1,1\n0,3,1,1,0\n1,4,1,1,0\n0,5,1,1,0\n"
    found = rci.import_logs(write(tmp_path / "log.csv", text))
    assert found.episodes.lengths.tolist() == [2, 2, 1]
    assert found.episodes.terminated.tolist() == [True, False, False]


def test_the_same_name_in_two_files(tmp_path):
    text = "episode,obs,action,reward\n0,1,1,1\n"
    write(tmp_path / "a.csv", text)
    write(tmp_path / "b.csv", text)
    with pytest.raises(
        RciError, match=r"b\.csv, line 2: episode '0' is in .*a\.csv already.*episodes_per_file"
    ):
        rci.read_logs(tmp_path)
    assert len(rci.read_logs(tmp_path, {"episodes_per_file": True})) == 2


def test_next_observations(tmp_path):
    text = "obs,next_obs,action,reward\n1,2,0,0\n2,9,0,0\n"
    found = rci.import_logs(write(tmp_path / "log.csv", text))
    assert found.episodes.obs[:, 0].tolist() == [1, 2, 9]
    assert not any("repeated" in note for note in found.notes)
    with pytest.raises(RciError, match="line 2: the next observation is not the observation of the row"):
        rci.read_logs(write(tmp_path / "log.csv", text.replace("1,2,", "1,3,")))


@pytest.mark.parametrize("columns", [["y"], ["y", "y2"]])
def test_next_observations_of_another_length(tmp_path, columns):
    header = ",".join(["episode", "x1", "x2", "x3", *columns, "action", "reward"])
    path = write(tmp_path / "a.csv", f"{header}\n0,1,1,1,{'1,' * len(columns)}1,1\n")
    with pytest.raises(
        RciError, match=rf"line 2: .* must be 3 numbers, as the observation, got {len(columns)}"
    ):
        rci.import_logs(path, {"obs": ["x1", "x2", "x3"], "next_obs": columns})


def test_choices_become_one_hot(tmp_path):
    path = write(tmp_path / "log.csv", "obs,action,reward\n1,0,0\n2,2,0\n3,,\n")
    assert rci.read_logs(path, {"choices": 3}).action.tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(RciError, match="line 3, column 'action' must be a whole number from 0 to 1, got 2"):
        rci.read_logs(path, {"choices": 2})


def test_stops_may_be_graded(tmp_path):
    text = "episode,obs,action,reward,stop,severity\n0,1,1,1,0,\n0,1,1,1,1,0.25\n1,1,1,1,1,\n2,1,1,1,0,0.5\n"
    assert rci.import_logs(write(tmp_path / "a.csv", text)).labels().cost.tolist() == [0.25, 1, 0]
    found = rci.import_logs(write(tmp_path / "a.csv", text.replace("0.25", "2")))
    assert found.labels().cost.tolist() == [1, 1, 0]
    assert "every stop counts as 1" in found.notes[-1]


def test_parquet_keeps_the_costs_of_channels(tmp_path):
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1], ("near", "off"))
    path = rci.write_parquet(tmp_path / "a.parquet", episodes, labels, costs)
    for channel in (0, 1):
        found = rci.import_logs(path, {"cost": f"cost_channel_{channel}"})
        assert np.array_equal(found.cost, costs.cost[:, channel])
    assert np.array_equal(rci.import_logs(path).cost, costs.total)


def test_spreadsheets(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfobs;action;reward;stop\r\n1;0;0;TRUE\r\n\r\n2;0;0;false\r\n")
    found = rci.import_logs(path)
    assert found.episodes.lengths.tolist() == [2]
    assert found.stop_index.tolist() == [0]


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3,), (2, 4)])
@pytest.mark.parametrize("group", [1, 4, 1 << 16])
def test_parquet_comes_back_bit_for_bit(dtype, shape, group, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_ROWS", group)
    episodes = sample(dtype, shape)
    labels, costs = judged(episodes, [2, -1, 3, -1])
    path = rci.write_parquet(tmp_path / "a.parquet", episodes, labels, costs, true_cost=np.arange(13))
    found = rci.import_logs(path)
    assert_same(found.episodes, cut(episodes, labels))
    assert found.stop_index.tolist() == [2, -1, 3, -1]
    assert np.array_equal(found.cost, costs.cost)
    assert not any("repeated" in note for note in found.notes)
    table = pq.read_table(path)
    assert table["cost_sparse"].to_pylist()[:4] == [0, 0, 1, None]
    assert table["cost_true"].to_pylist()[:6] == [0, 1, 2, None, 5, None]
    with pytest.raises(RciError, match="exists"):
        rci.write_parquet(path, episodes, labels, costs)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "a.parquet"]


# --- logs that are wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("a,1,2,3", "a,1,,3", "1 value is missing in 1 row: 'x' in .*PLACE\\. .*missing = \"forward\""),
        ("0.25,2,0", "0.25,,0", "1 value is missing in 1 row: 'r' in .*PLACE\\."),
        ("a,1,2,3", "a,5,2,3", "column 't': 2 comes after 5"),
        ("a,1,2,3", "a,0,2,3", "column 't': 0 comes twice in an episode"),
        ("a,2,4,5", "a,3,4,5", "column 't': 3 follows 1, but steps are 1 apart elsewhere; rows are missing"),
        ("a,2,4,5,,,", "a,2,4,5,,8,", "a row without an action has a reward, 8"),
        ("a,1,2,3,0.25,2,0", "a,1,2,3,,,", "2 values are missing in 1 row: 'u' in .*PLACE; 'r' in .*PLACE"),
        ("b,0,6,7,-1,3,1\n", "", "episode 1 has no step"),
        ("b,1,", "a,3,", "episode 'a' was there before; its rows must be together, so sort by 'run'"),
        ("0.25,2,0", "0.25,2,7", "column 'stopped' must be true or false, yes or no, 1 or 0, got 7"),
        ("0.25,2,0", "0.25,1e309,0", "column 'r' is not finite: inf"),
    ],
)  # fmt: skip
def test_mistakes_are_found_with_their_place(log, before, after, message):
    assert before in LOG
    path = log(LOG.replace(before, after))
    place = {".csv": "line 3", ".jsonl": "line 2", ".parquet": "row 1"}[path.suffix]
    with pytest.raises(RciError, match=message.replace("PLACE", place)) as caught:
        rci.read_logs(path, MAPPING)
    assert path.name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "is empty: its first line must name the columns"),
        ("a.csv", "obs,action,reward\n", "has no rows"),
        ("a.csv", "obs,obs,action,reward\n1,1,1,1\n", "two columns have the name 'obs'"),
        ("a.csv", "obs,action,reward\n1,1\n", "line 2 has 2 fields, but there are 3 columns"),
        ("a.csv", "obs,action,reward\n1,left,1\n", "line 2, column 'action' must be a number, got 'left'"),
        ("a.csv", 'obs,"action,reward\n1,1,1\n', "a quote in the first line, at 'action,reward.*, is not closed"),
        ("a.csv", "x,action,reward\n1,1,1\n", "no column looks like obs.*The columns are: x, action, reward"),
        ("a.csv", "obs,action\n1,1\n", "no column looks like a reward; say reward = 0 .*an expression"),
        ("a.csv", "episode,obs,action,reward\n,1,1,1\n", "line 2, column 'episode' is missing: every row must"),
        ("a.jsonl", '{"episode": [1], "obs": 1, "action": 1, "reward": 1}\n', "line 1.* must name an episode"),
        ("a.csv", "obs,action,reward\n0.1,\"0,5\",1\n", "'0,5': write decimals with a point, not with a comma"),
        ("a.csv", "obs,action,reward,stop\n1,1,1,n\n", "must be true or false, yes or no, 1 or 0, got 'n'"),
        ("a.csv", "obs,action,reward,time\n1,1,1,noon\n", "say time = 'time' in the mapping.*step = ''.*got 'noon'"),
        ("a.jsonl", "", "has no rows"),
        ("a.jsonl", '{"obs": [], "action": 1, "reward": 1}\n', "line 1, column 'obs' must have at least one number"),
        ("a.jsonl", '{"obs": [1%s], "action": 1, "reward": 1}\n' % ("0" * 400), "line 1, column 'obs' must be a list"),
        ("a.csv", "episode,obs,action,reward,done\n1,1,1,1,1\n1,1,1,1,0\n", "line 2: episode '1' has ended, but"),
        ("a.csv", "obs,act0,act1,reward\n1,1,,1\n", "1 value is missing in 1 row: 'act1' in .*line 2"),
        ("a.jsonl", "{", "line 1 is not JSON"),
        ("a.jsonl", "[1]\n", r"line 1 must be a JSON object, got \[1\]"),
        ("a.jsonl", '{"obs": [1, 2], "action": 1, "reward": 1}\n{"obs": [1], "action": 1, "reward": 1}\n',
         "line 2, column 'obs' must be a list of 2 numbers"),
        ("a.jsonl", '{"obs": [[1], [2]], "action": [[1]], "reward": [1]}\n',
         "line 1, column 'action' must be a list of 1"),
        ("a.jsonl", '{"obs": 1, "action": 1, "reward": [1, 2]}\n', "column 'reward' must be one number, got a list"),
        ("a.jsonl", '{"obs": 1, "action": 1, "reward": NaN}\n', "1 value is missing in 1 row: 'reward' in .*line 1"),
        ("a.parquet", "hello", "is damaged or no Parquet file"),
        ("a.txt", "hello", r"logs are read from \.csv, \.jsonl, \.parquet files, not from a\.txt"),
    ],
)  # fmt: skip
def test_files_that_are_no_logs(tmp_path, name, text, message):
    with pytest.raises(RciError, match=message):
        rci.read_logs(write(tmp_path / name, text))


def test_folders_that_are_no_logs(tmp_path):
    with pytest.raises(RciError, match="there is nothing at"):
        rci.read_logs(tmp_path / "none")
    with pytest.raises(RciError, match=r"no \.csv, \.jsonl, \.parquet files in"):
        rci.read_logs(tmp_path)
    write(tmp_path / "a.csv", "obs,action,reward\n1,1,1\n")
    write(tmp_path / "b.csv", "obs,action\n1,1\n")
    with pytest.raises(RciError, match=r"b\.csv has no column 'reward', which .*a\.csv has"):
        rci.read_logs(tmp_path)
    write(tmp_path / "c.jsonl", "{}")
    with pytest.raises(RciError, match=r"several kinds, \.csv and \.jsonl"):
        rci.read_logs(tmp_path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
def test_other_encodings(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes("obs,action,réward\n".encode(encoding))
    with pytest.raises(RciError, match=r"a\.csv is not UTF-8 text.* Save it again as UTF-8\."):
        rci.read_logs(tmp_path / "a.csv")


def test_endings_in_capitals(tmp_path):
    path = write(tmp_path / "LOG.CSV", LOG)
    check_log(rci.import_dataset(path, mapping=MAPPING))
    check_log(rci.import_logs(tmp_path, MAPPING))


def test_lists_in_a_spreadsheet(tmp_path):
    text = 'run,obs,action,reward\na,"[1, 2]",[0.5],1\na,"[3, 4]",[0.25],1\na,"[5, 6]",,\n'
    found = rci.read_logs(write(tmp_path / "a.csv", text))
    assert found.obs.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.action.tolist() == [[0.5], [0.25]]


def test_steps_that_float64_would_round(log):
    nanoseconds = [1_700_000_000_000_000_000 + 20 * t for t in range(3)]
    text = "run,t,x,y,u,r\n" + "".join(f"a,{t},0,0,0.5,1\n" for t in nanoseconds)
    path = log(text)
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        pq.write_table(table.set_column(1, "t", [nanoseconds]), path)
    elif path.suffix == ".jsonl":
        row = {"run": "a", "x": 0, "y": 0, "u": 0.5, "r": 1}
        path.write_text("".join(json.dumps({**row, "t": t}) + "\n" for t in nanoseconds))
    assert rci.read_logs(path, MAPPING).lengths.tolist() == [3]
    gap = text.replace(str(nanoseconds[2]), str(nanoseconds[2] + 1))
    with pytest.raises(
        RciError, match=f"{nanoseconds[2] + 1} follows {nanoseconds[1]}, but steps are 20 apart"
    ):
        rci.read_logs(write(path.with_suffix(".csv"), gap), MAPPING)


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        ([[1.0, 2.0], None, [1.0]], "row 2, column 'obs' must be a list of 2 numbers, .* got 1"),
        ([None, [1.0, 2.0], [1.0, None]], "row 2, column 'obs': a number inside the list is missing"),
    ],
)
def test_rows_of_lists_are_named(tmp_path, obs, message):
    table = pa.table({"obs": obs, "action": [0.5] * 3, "reward": [1.0] * 3})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(RciError, match=message):
        rci.read_logs(tmp_path / "a.parquet")


def test_actions_that_may_be_choices_are_told(tmp_path):
    text = "obs,action,reward\n1,0,1\n1,2,1\n1,1,1\n"
    path = write(tmp_path / "a.csv", text)
    assert any("say choices = 3 in the mapping" in note for note in rci.import_logs(path).notes)
    assert not any("choices" in note for note in rci.import_logs(path, {"choices": 3}).notes)
    write(path, text.replace("1,2,1", "1,2.5,1"))
    assert not any("choices" in note for note in rci.import_logs(path).notes)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"obz": "x"}, "unknown key in the mapping 'obz'. Did you mean 'obs'"),
        ({**MAPPING, "obs": ["x", "z"]}, r"unknown column in .*log\.csv 'z'"),
        ({**MAPPING, "obs": 3}, "obs must be a column or a list of columns, got 3"),
        ({**MAPPING, "reward": ["r"]}, "reward must be the name of a column"),
        ({**MAPPING, "reward": "x"}, "column 'x' is named as obs and as reward"),
        ({**MAPPING, "choices": True}, "choices must be a whole number"),
        ({**MAPPING, "episodes_per_file": 1}, "episodes_per_file must be true or false"),
        ({**MAPPING, "obs": ["x", "run"]}, "column 'run' is named as obs and as episode"),
        ({**MAPPING, "stop": "", "severity": "stopped"}, "no column says where stops are"),
        ("none.toml", "cannot read none.toml: No such file"),
        (3, "a mapping is a dict or a TOML file, got int"),
    ],
)
def test_wrong_mappings(tmp_path, mapping, message):
    with pytest.raises(RciError, match=message):
        rci.read_logs(write(tmp_path / "log.csv", LOG), mapping)


def test_a_mapping_that_is_no_toml(tmp_path):
    with pytest.raises(RciError, match=r"a\.toml is not TOML"):
        rci.read_logs(write(tmp_path / "log.csv", LOG), write(tmp_path / "a.toml", "obs = ["))


def test_a_flag_that_does_not_say_what_ended_an_episode(tmp_path):
    path = write(tmp_path / "a.csv", "obs,action,reward,done\n1,1,1,0\n1,1,1,1\n")
    found = rci.import_logs(path)
    assert found.episodes.terminated.tolist() == [True]
    assert "'done' does not say what ended an episode: taken as terminated" in found.notes
    told = rci.import_logs(path, {"terminated": "", "truncated": "done"})
    assert told.episodes.truncated.tolist() == [True]
    assert not any("ended" in note for note in told.notes)


def test_a_step_column_that_counts_no_steps(tmp_path):
    text = "time,obs,action,reward\n0.1,1,1,1\n0.25,1,1,1\n0.9,1,1,1\n"
    assert len(rci.read_logs(write(tmp_path / "a.csv", text)).reward) == 3
    text = "time,obs,action,reward\n10,1,1,1\n25,1,1,1\n90,1,1,1\n"
    with pytest.raises(RciError, match="say step = '' in the mapping"):
        rci.read_logs(write(tmp_path / "a.csv", text))
    assert len(rci.read_logs(tmp_path / "a.csv", {"step": ""}).reward) == 3

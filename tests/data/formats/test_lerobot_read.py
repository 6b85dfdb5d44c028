"""LeRobot folders that the real package has written (tests/data/formats/lerobot), and what is wrong with others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lerobot_frames import JOINTS, LENGTHS, STOPS, TASKS, frames

import rci
from rci.data.errors import RciError
from rci.formats import guess_format
from rci.formats.importing import unfinished
from rci.formats.lerobot import info
from rci.formats.tables import parquet

SAMPLES = Path(__file__).parent / "lerobot"
VERSIONS = ("v2.1", "v3.0")


@pytest.fixture(params=VERSIONS)
def sample(request, tmp_path):
    """A copy of a folder, to be changed."""
    return Path(shutil.copytree(SAMPLES / request.param, tmp_path / request.param))


def frames_of(name):
    return np.concatenate([[frame[name] for frame in frames(e)] for e in range(len(LENGTHS))])


def data_file(folder, episode=1):
    """The file of frames that has this episode."""
    files = sorted(folder.glob("data/*/*.parquet"))
    return files[episode] if len(files) > 1 else files[0]


def change_table(path, change):
    table = change(pq.read_table(path))
    pq.write_table(table, path)


def change_info(folder, **entries):
    path = folder / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def with_column(table, name, values):
    field = table.schema.get_field_index(name)
    return table.set_column(field, name, pa.array(values))


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_that_was_recorded_is_read(version):
    assert guess_format(SAMPLES / version) == "lerobot"
    found = rci.import_dataset(SAMPLES / version)
    episodes = found.episodes
    assert episodes.lengths.tolist() == list(LENGTHS)
    for i in range(len(episodes)):
        recorded, episode = frames(i), episodes[i]
        seen = np.array([frame["observation.state"] for frame in recorded])
        assert np.array_equal(
            episode.obs, [*seen, seen[-1]]
        )  # the last one stands in for what was not recorded
        assert episode.obs.dtype == np.float32
        assert np.array_equal(episode.action, [frame["action"] for frame in recorded])
        assert np.array_equal(episode.reward, [frame["next.reward"][0] for frame in recorded])
    assert episodes.terminated.tolist() == [stop < 0 for stop in STOPS]
    assert not episodes.truncated.any()
    assert [signal.name for signal in episodes.signals.obs] == JOINTS
    assert [signal.name for signal in episodes.signals.action] == JOINTS
    assert episodes.signals.rate == 10
    assert episodes.keys == {
        "episode_index": ["0", "1", "2", "3"],
        "task": [TASKS[i % 2] for i in range(4)],
        "success": ["true", "false", "false", "false"],
    }
    assert found.labels().stop_index.tolist() == list(STOPS)
    assert np.array_equal(found.takeovers().flags(), frames_of("intervention").reshape(-1))
    assert len(found.takeovers()) == 1
    assert found.cost is None
    assert "not read: observation.force" in found.notes[0]
    assert "in 4 of 4 episodes: their last observation is repeated" in found.notes[1]


def test_the_version_before_2_1_is_read_alike(tmp_path):
    folder = Path(shutil.copytree(SAMPLES / "v2.1", tmp_path / "old"))
    change_info(folder, codebase_version="v2.0")
    (folder / "meta/episodes_stats.jsonl").unlink()
    assert rci.read_lerobot(folder).hash == rci.read_lerobot(SAMPLES / "v2.1").hash


def test_a_mapping_chooses(sample, tmp_path):
    toml = tmp_path / "mapping.toml"
    toml.write_text(
        'obs = ["observation.state", "observation.force"]\nstop = "intervention"\nreward = ""\ntakeover = ""\n'
    )
    found = rci.import_lerobot(sample, toml)
    assert np.array_equal(
        found.episodes[2].obs[:-1, 3], [frame["observation.force"][0] for frame in frames(2)]
    )
    assert [signal.name for signal in found.episodes.signals.obs] == [*JOINTS, "force"]
    assert found.labels().stop_index.tolist() == [-1, -1, 3, -1]
    assert not found.episodes.reward.any()
    assert found.takeovers() is None
    for wrong, sentence in {
        "observations": "unknown key in the mapping 'observations'",
        "stop": "unknown feature in the mapping 'x'",
        "obs": "unknown feature in the mapping 'x'",
    }.items():
        with pytest.raises(RciError, match=sentence):
            rci.read_lerobot(sample, {wrong: "x"})
    with pytest.raises(RciError, match="'observation.images.front' is video of shape"):
        rci.read_lerobot(sample, {"obs": "observation.images.front"})
    with pytest.raises(RciError, match="'action' is used for two things"):
        rci.read_lerobot(sample, {"obs": "action"})
    with pytest.raises(RciError, match="'action' is to be the stop: one number a frame"):
        rci.read_lerobot(sample, {"stop": "action", "action": "observation.force"})


def test_names_may_be_a_table_or_missing_or_twice(sample):
    described = json.loads((sample / "meta/info.json").read_text())["features"]
    described["observation.state"]["names"] = {"motors": ["a", "b", "c"]}
    described["action"]["names"] = None
    described["observation.force"]["names"] = ["a"]
    change_info(sample, features=described)
    signals = rci.read_lerobot(sample).signals
    assert [signal.name for signal in signals.obs] == ["a", "b", "c"]
    assert signals.action == ()
    both = rci.read_lerobot(sample, {"obs": ["observation.state", "observation.force"]}).signals
    assert [s.name for s in both.obs][::3] == ["observation.state.a", "observation.force.a"]


def test_an_import_that_was_interrupted_goes_on(sample, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BLOCK_ROWS", 4)
    monkeypatch.setattr(unfinished, "COMMIT_BYTES", 1)
    whole = rci.import_lerobot(sample)
    shares = []

    def interrupt(share):
        shares.append(share)
        if len(shares) in (2, 5):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            rci.convert_dataset(sample, tmp_path / "out", progress=interrupt)
    continued = []
    found = rci.convert_dataset(sample, tmp_path / "out", continuing=continued.append)
    again = rci.load(tmp_path / "out")
    assert continued[0] > 0
    assert again.hash == whole.episodes.hash == found.episodes_hash
    assert again.keys == whole.episodes.keys
    assert again.signals == whole.episodes.signals
    assert np.array_equal(found.human, whole.human)
    assert found.notes == whole.notes


WRONG_INFO = {
    "codebase_version": (
        "v9.9",
        "codebase_version 'v9.9' of LeRobot is not known; known are v2.0, v2.1, v3.0",
    ),
    "fps": (float("nan"), "fps must be a positive number"),
    "features": ({}, "features must say what the columns are"),
    "chunks_size": (0, "chunks_size must be at least 1"),
    "data_path": ("../{episode_index}{chunk_index}.parquet", "would be outside of the folder|has a field"),
}


@pytest.mark.parametrize("key", WRONG_INFO)
def test_a_wrong_description_is_one_sentence(sample, key):
    value, sentence = WRONG_INFO[key]
    change_info(sample, **{key: value})
    with pytest.raises(RciError, match=sentence):
        rci.read_lerobot(sample)


def test_shapes_that_disagree(sample):
    described = json.loads((sample / "meta/info.json").read_text())["features"]
    described["action"].update(shape=[4], names=None)
    change_info(sample, features=described)
    with pytest.raises(
        RciError, match=r"row 0, column 'action': a frame has the shape \[3\], but meta/info.json says \[4\]"
    ):
        rci.read_lerobot(sample)
    described["action"].update(names=["only one"])
    change_info(sample, features=described)
    with pytest.raises(RciError, match="has 1 names for 4 numbers"):
        rci.read_lerobot(sample)


def test_a_template_runs_no_code(tmp_path):
    folder = Path(shutil.copytree(SAMPLES / "v2.1", tmp_path / "a"))
    for template in (
        "{episode_index.__class__}",
        "{episode_index:99999999999d}",
        "{0}",
        "{episode_index!r}",
        "x{",
    ):
        change_info(folder, data_path=template)
        with pytest.raises(RciError, match="the template"):
            rci.read_lerobot(folder)


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "a\\b", "a\0b"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    with pytest.raises(RciError, match="would be outside of the folder"):
        info.place_of(tmp_path, name)


def test_links_that_lead_out_are_refused(sample, tmp_path):
    path = data_file(sample)
    outside = tmp_path / "outside.parquet"
    path.rename(outside)
    path.symlink_to(outside)
    with pytest.raises(RciError, match="is a link that leads out of"):
        rci.read_lerobot(sample)
    path.unlink()
    with pytest.raises(RciError, match="there is no file .*parquet, of which .*meta speaks"):
        rci.read_lerobot(sample)


def test_files_that_are_cut_off(sample):
    path = data_file(sample)
    content = path.read_bytes()
    for share in (0, 0.3, 0.9, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(RciError, match="damaged"):
            rci.read_lerobot(sample)


def test_frames_and_their_list_must_agree(sample):
    path = data_file(sample)
    change_table(path, lambda table: table.slice(0, len(table) - 1))
    with pytest.raises(
        RciError, match=r"has \d+ frames, but the episodes \d to \d, which are listed as in it, have \d+"
    ):
        rci.read_lerobot(sample)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("frame_index", lambda v: v[::-1], "column 'frame_index' must be 0 by the list of episodes, got"),
        ("episode_index", lambda v: v + 1, "column 'episode_index' must be"),
        ("timestamp", lambda v: -v, "the clock goes from"),
        ("next.reward", lambda v: np.where(v == v[3], np.nan, v), "row 3, column 'next.reward' is missing"),
        ("next.reward", lambda v: np.where(v == v[3], np.inf, v), "row 3, column 'next.reward' is not finite"),
        ("stopped", lambda v: v + 2, "row 0 must be a flag"),
        ("action", lambda v: np.arange(len(v)), r"a frame has the shape \[1\], but meta/info.json says \[3\]"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_named(sample, name, change, sentence):
    path = data_file(sample)
    change_table(path, lambda table: with_column(table, name, change(table.column(name).to_numpy())))
    with pytest.raises(RciError, match=sentence):
        rci.read_lerobot(sample)


def test_a_clock_with_gaps_is_noted(sample):
    path = data_file(sample)
    change_table(
        path, lambda table: with_column(table, "timestamp", table.column("timestamp").to_numpy() * 3)
    )
    assert any(
        "frames are not 1/10 s after the one before" in note for note in rci.import_lerobot(sample).notes
    )


def test_a_column_that_is_missing(sample):
    renamed = {"action": "ac\ntion"}
    change_table(data_file(sample), lambda t: t.rename_columns([renamed.get(n, n) for n in t.column_names]))
    with pytest.raises(
        RciError, match=r"has no column 'action', which meta/info.json describes; .*'ac\\ntion'"
    ):
        rci.read_lerobot(sample)
    change_info(sample, features={"ac\ntion": {}})
    with pytest.raises(RciError, match="has a name that cannot be printed"):
        rci.read_lerobot(sample)


def test_lists_of_episodes_that_are_wrong(tmp_path):
    folder = Path(shutil.copytree(SAMPLES / "v2.1", tmp_path / "a"))
    path = folder / "meta/episodes.jsonl"
    line = path.read_text().splitlines()[0]
    for text, sentence in {
        line + "\n" + line: "episode 0 is listed twice",
        line.replace("7", "-7"): "length must be a whole number from 0 on",
        line.replace("7", "0"): "episode 0 has no frames",
        line.replace('["lift the cup"]', "[3]"): "tasks must be a list of texts",
        line.replace("7", "999999999999"): "has 7 frames, but the episodes 0 to 0, which .* have 999999999999",
    }.items():  # fmt: skip
        path.write_text(text)
        with pytest.raises(RciError, match=sentence):
            rci.read_lerobot(folder)
    path.unlink()
    with pytest.raises(RciError, match="there is no file .*episodes.jsonl"):
        rci.read_lerobot(folder)

import json
import shutil
import warnings
from types import SimpleNamespace

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from foreign_files import assert_same, cut, judged, sample
from minari.data_collector import EpisodeBuffer

import rci
from rci.data.errors import RciError

FORMATS = ("hdf5", "arrow", "parquet")
every_format = pytest.mark.parametrize("data_format", FORMATS)


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    folder = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


def box(array):
    return gym.spaces.Box(-np.inf, np.inf, array.shape[1:], array.dtype.type)


def buffers(episodes, infos=None):
    for i, episode in enumerate(episodes):
        steps = len(episode.action)
        last = np.arange(steps) == steps - 1
        yield EpisodeBuffer(
            observations=episode.obs,
            actions=episode.action,
            rewards=episode.reward,
            terminations=last & episode.terminated,
            truncations=last & episode.truncated,
            infos=None if infos is None else infos(i, steps),
        )


def create(name, made, observation_space, action_space, data_format="hdf5"):
    """A dataset by the real package, which warns of everything that was not told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return minari.create_dataset_from_buffers(
            name, list(made), observation_space=observation_space, action_space=action_space, data_format=data_format
        )  # fmt: skip


@pytest.fixture
def made():
    """A function that has the real package write the sample."""

    def make(data_format="hdf5", infos=None, dtype=np.float32, shape=(3,)):
        episodes = sample(dtype, shape)
        create("arm/b-v0", buffers(episodes, infos), box(episodes.obs), box(episodes.action), data_format)
        return episodes

    return make


@every_format
@pytest.mark.parametrize(("dtype", "shape"), [(np.float32, (3,)), (np.float64, (2, 2)), (np.float32, (1,))])
def test_what_minari_writes_is_read_bit_for_bit(made, data_format, dtype, shape, datasets):
    episodes = made(data_format, None, dtype, shape)
    found = rci.import_minari("arm/b-v0")
    assert_same(found.episodes, episodes)
    assert (found.stop_index, found.cost, found.notes) == (None, None, ())
    for folder in (
        datasets / "arm" / "b-v0",
        datasets / "arm" / "b-v0" / "data",
        str(datasets / "arm" / "b-v0"),
    ):
        assert_same(rci.read_minari(folder), episodes)


@every_format
@pytest.mark.parametrize("one_hot", [0, 4])
def test_what_we_write_is_read_by_minari_and_comes_back(data_format, one_hot, datasets):
    episodes = sample(one_hot=one_hot)
    labels, costs = judged(episodes, [2, -1, 3, -1])
    true_cost = np.arange(13) / 13
    folder = rci.write_minari("lab/y-v3", episodes, labels, costs, true_cost, data_format=data_format)
    assert folder == datasets / "lab" / "y-v3"
    kept = cut(episodes, labels)

    found = rci.import_minari("lab/y-v3")
    assert_same(found.episodes, kept)
    assert found.stop_index.tolist() == [2, -1, 3, -1]
    assert np.array_equal(found.cost, costs.cost)

    theirs = minari.load_dataset("lab/y-v3")
    assert list(minari.list_local_datasets()) == ["lab/y-v3"]
    assert theirs.total_episodes == 4
    assert theirs.total_steps == len(kept.reward)
    wanted = gym.spaces.Discrete(4) if one_hot else box(episodes.action)
    assert theirs.action_space == wanted
    for row, (episode, mine, cost) in enumerate(zip(theirs.iterate_episodes(), kept, costs.per_episode())):
        steps = len(mine.action)
        stopped = row in (0, 2)
        assert np.array_equal(episode.observations, mine.obs)
        assert np.array_equal(episode.actions, mine.action.argmax(1) if one_hot else mine.action)
        assert np.array_equal(episode.rewards, mine.reward)
        assert episode.terminations[-1] == mine.terminated
        assert episode.truncations[-1] == (mine.truncated or stopped)
        infos = episode.infos
        assert all(len(infos[name]) == steps + 1 and infos[name][0] == 0 for name in infos)
        assert np.array_equal(infos["cost"][1:], cost)
        assert infos["cost_sparse"].sum() == infos["cost_sparse"][-1] == stopped
        assert infos["stopped"].sum() == infos["stopped"][-1] == stopped
        assert infos["cost_true"][1:] == pytest.approx(true_cost[episodes.step_offset[row] :][:steps], abs=0)
    rci_facts = theirs.storage.metadata["rci"]
    assert rci_facts["stopped_episodes"] == 2
    assert rci_facts["costs"]["method"] == "uniform"


def test_a_folder_without_an_id(tmp_path, monkeypatch):
    episodes = sample()
    labels, costs = judged(episodes, [-1, -1, -1, 0])
    folder = rci.write_minari(tmp_path / "my data", episodes, labels, costs)
    assert folder == tmp_path / "my data"
    assert minari.MinariDataset(folder / "data").spec.dataset_id == "my-data-v0"
    assert_same(rci.read_minari(folder), cut(episodes, labels))
    monkeypatch.chdir(tmp_path)
    assert rci.write_minari("./here-v0", episodes, labels, costs).samefile(tmp_path / "here-v0")
    assert_same(rci.read_minari("here-v0"), cut(episodes, labels))


def test_channels(tmp_path):
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1], ("near", "off"))
    rci.write_minari("c-v0", episodes, labels, costs)
    infos = minari.load_dataset("c-v0")[0].infos
    assert np.array_equal(infos["cost_channel_1"][1:], costs.per_episode()[0][:, 1])
    assert np.array_equal(rci.import_minari("c-v0").cost, costs.total)


@every_format
@pytest.mark.parametrize("extra", [0, 1])
def test_costs_of_t_or_one_more_row(made, extra, data_format):
    if data_format != "hdf5" and extra == 0:
        pytest.skip("Arrow has no shorter columns")
    made(data_format, lambda i, steps: {"cost": [9.0] * extra + [i + t / 10 for t in range(steps)]})
    found = rci.import_minari("arm/b-v0")
    assert found.cost.tolist() == [i + t / 10 for i, steps in enumerate((5, 1, 4, 3)) for t in range(steps)]


@every_format
def test_stops_in_infos(made, data_format):
    made(
        data_format,
        lambda i, steps: {
            "stopped": [0] + [int(i in (0, 1) and t >= min(2, steps - 1)) for t in range(steps)]
        },
    )
    found = rci.import_minari("arm/b-v0")
    assert found.stop_index.tolist() == [2, 0, -1, -1]
    assert found.episodes.truncated.tolist() == [False, False, True, False]  # the second one is the stop's
    assert "the stop ended them" in found.notes[0]


@every_format
def test_parts_are_flattened_and_choices_made_one_hot(data_format):
    space = gym.spaces.Dict(
        {
            "arm": gym.spaces.Box(-1, 1, (2,), np.float32),
            "mode": gym.spaces.Discrete(3, start=1),
            "two": gym.spaces.Tuple([gym.spaces.MultiBinary(2), gym.spaces.MultiDiscrete([2, 3])]),
        }
    )
    observations = {
        "arm": np.array([[0.5, 0.25], [1, 0], [0, 1]], np.float32),
        "mode": np.array([1, 3, 2]),
        "two": (np.array([[0, 1], [1, 1], [0, 0]], np.int8), np.array([[0, 2], [1, 0], [0, 1]])),
    }
    buffer = EpisodeBuffer(
        observations=observations, actions=np.array([4, 5]), rewards=np.array([1.0, 2.0]),
        terminations=np.array([False, True]), truncations=np.array([False, False]),
    )  # fmt: skip
    create("d-v0", [buffer], space, gym.spaces.Discrete(2, start=4), data_format)
    found = rci.import_minari("d-v0")
    assert found.episodes.obs.tolist() == [
        [0.5, 0.25, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1],
        [1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0],
        [0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0],
    ]
    assert found.episodes.action.tolist() == [[1, 0], [0, 1]]
    assert found.notes == (
        "the observation has parts: flattened in the order arm, mode, two.0, two.1",
        "the action is a choice of 2: made one-hot",
    )


def test_pictures_and_texts_are_refused():
    text = gym.spaces.Text(8)
    picture = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    for space, message in (
        (text, "type 'Text', which is not made of numbers"),
        (picture, "pictures that are stored as JPEG"),
    ):
        minari_storage = minari.dataset.minari_storage.MinariStorage
        folder = minari.storage.get_dataset_path("p-v0")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        minari_storage.new(folder / "data", space, gym.spaces.Discrete(2))
        with pytest.raises(RciError, match=message):
            rci.read_minari("p-v0")


def test_nothing_is_overwritten_or_left_behind(datasets, monkeypatch):
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1])
    rci.write_minari("x-v0", episodes, labels, costs)
    with pytest.raises(RciError, match="exists; a Minari dataset is never changed"):
        rci.write_minari("x-v0", episodes, labels, costs)
    with pytest.raises(RciError, match="is like arm/stopped-v0, got 'x'"):
        rci.write_minari("x", episodes, labels, costs)
    with pytest.raises(RciError, match="one of arrow, hdf5, parquet, got 'zip'"):
        rci.write_minari("y-v0", episodes, labels, costs, data_format="zip")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
        with pytest.raises(RciError, match=r"about 0\.1 MB, but only 0\.0 MB are free"):
            rci.write_minari("y-v0", episodes, labels, costs)
    with pytest.raises(RciError, match="not one-hot"):
        rci.write_minari("y-v0", episodes, labels, costs, discrete=True)

    def fail(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rci.write_minari("y-v0", episodes, labels, costs, progress=fail)
    assert [path.name for path in datasets.iterdir()] == ["x-v0"]


# --- datasets that are wrong -----------------------------------------------------------------------------------------


def test_unknown_datasets_name_the_known_ones(made):
    made()
    with pytest.raises(
        RciError, match=r"no Minari dataset 'arm/c-v0'.* local ones: arm/b-v0.*minari download arm/c-v0"
    ):
        rci.read_minari("arm/c-v0")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total_episodes": 5}, "the metadata says 5 episodes, the file has 4"),
        ({"total_episodes": "4"}, "total_episodes must be a whole number from 0 on, got '4'"),
        ({"data_format": "zip"}, "data_format must be one of arrow, hdf5, parquet, got 'zip'"),
        ({"observation_space": "{"}, "observation_space is not the description of a space"),
        (
            {"observation_space": '{"type": "Box", "shape": [7], "dtype": "float32"}'},
            r"must have shape \(7,\)",
        ),
        ({"action_space": '{"type": "Discrete", "n": 3, "start": 0}'}, "actions"),
    ],
)
def test_wrong_metadata(made, datasets, change, message):
    made()
    path = datasets / "arm" / "b-v0" / "data" / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RciError, match=message):
        rci.read_minari("arm/b-v0")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rewards", None, "has no rewards; what it has there: actions, observations"),
        ("rewards", np.zeros(7), "7 rewards need 8 observations"),
        ("rewards", np.array([0, 0, np.nan, 0, 0]), "rewards, row 2 is not finite"),
        ("observations", np.full((6, 3), np.inf), "observations, row 0 is not finite"),
        ("observations", np.zeros((6, 2)), r"must have shape \(3,\) in each row, got \(2,\)"),
        ("terminations", np.full(5, 3), "terminations, row 0 must be a flag"),
        ("infos/cost", np.zeros(9), r"infos\['cost'\] must have 5 or 6 rows, got 9"),
        ("infos/stopped", np.zeros(9), r"infos\['stopped'\] must have 5 or 6 rows, got 9"),
        ("infos/cost", np.zeros(5), "only some episodes have a cost"),
    ],
)
def test_wrong_episodes(made, datasets, key, value, message):
    made()
    with h5py.File(datasets / "arm" / "b-v0" / "data" / "main_data.hdf5", "a") as file:
        group = file["episode_0"]
        if key in group:
            del group[key]
        if value is not None:
            group[key] = value
    with pytest.raises(RciError, match=message):
        rci.read_minari("arm/b-v0")


def test_flags_before_the_end_are_told(made, datasets):
    made()
    with h5py.File(datasets / "arm" / "b-v0" / "data" / "main_data.hdf5", "a") as file:
        file["episode_0/terminations"][1] = True
    found = rci.import_minari("arm/b-v0")
    assert found.notes == ("in 1 episodes flags are set before the end: only those of the last step count",)

"""A training that dies goes on where it was, and ends in the same bits."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ragged

import rci
from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Labels
from rci.learning import fit_behaviour, learn
from rci.learning.behaviour import Config
from rci.learning.checkpoint import Keeper
from rci.learning.methods import bcq_lagrangian
from rci.redistribution import redistribute

SMALL = {
    "method": "bcq-lagrangian",
    "hidden": 8,
    "candidates": 2,
    "test_candidates": 2,
    "batch_size": 8,
    "updates": 1700,
}


@pytest.fixture(scope="module")
def logs():
    episodes = ragged([4] * 30, seed=1)
    labels = Labels.for_episodes(episodes, np.where(np.arange(30) % 2, 3, -1))
    behaviour = fit_behaviour(episodes, labels, 0, Config(hidden=8, updates=5, proposals=4))
    return episodes, labels, redistribute(episodes, labels, "sparse"), behaviour


class DiedError(Exception):
    pass


def die_at(share):
    def progress(done):
        if done >= share:
            raise DiedError

    return progress


def test_resumed_training_is_the_same_training(logs, tmp_path):
    *data, behaviour = logs
    whole = learn(*data, seed=3, behaviour=behaviour, **SMALL)
    folder, settings = tmp_path / "kept", {**SMALL, "checkpoint_every": 600}
    with pytest.raises(DiedError):
        learn(*data, seed=3, behaviour=behaviour, checkpoint=folder, progress=die_at(0.8), **settings)
    assert store.read(folder, "checkpoint").info["update"] == 1500  # the first chance after 1200
    heard = []
    again = learn(*data, seed=3, behaviour=behaviour, checkpoint=folder, progress=heard.append, **settings)
    assert heard == [1.0]  # it did not begin anew
    assert again.hash == whole.hash


def test_a_longer_training_goes_on_from_a_shorter_one(logs, tmp_path):
    *data, behaviour = logs
    folder, shorter = tmp_path / "kept", {**SMALL, "updates": 1000}
    short = learn(*data, seed=3, behaviour=behaviour, checkpoint=folder, beyond=True, **shorter)
    assert store.read(folder, "checkpoint").info["update"] == 1000
    heard = []
    long = learn(*data, seed=3, behaviour=behaviour, checkpoint=folder, progress=heard.append, **SMALL)
    assert heard == [1500 / 1700, 1.0]
    assert short.hash == learn(*data, seed=3, behaviour=behaviour, **shorter).hash
    assert long.hash == learn(*data, seed=3, behaviour=behaviour, **SMALL).hash
    with pytest.raises(RciError, match="only from a checkpoint"):
        learn(*data, beyond=True, **SMALL)


def test_a_checkpoint_of_another_training_is_not_used(logs, tmp_path):
    *data, behaviour = logs
    folder, settings = tmp_path / "kept", {**SMALL, "checkpoint_every": 500}
    with pytest.raises(DiedError):
        learn(*data, seed=3, behaviour=behaviour, checkpoint=folder, progress=die_at(0.5), **settings)
    heard = []
    other = learn(*data, seed=4, behaviour=behaviour, checkpoint=folder, progress=heard.append, **settings)
    assert heard[0] == 500 / 1700
    assert other.hash == learn(*data, seed=4, behaviour=behaviour, **SMALL).hash


def test_a_damaged_checkpoint_is_not_used(tmp_path):
    keeper = Keeper(tmp_path / "kept", 10, "a training")
    keeper.keep({"weight": np.ones(3)}, 10, [{"update": 10.0}])
    assert keeper.resume({"weight": np.zeros(3)}, 10)[1] == 10
    assert keeper.resume({"weight": np.zeros(3)}, 9)[1] == 0  # of a longer training
    (tmp_path / "kept" / "weight.npy").write_bytes(b"no array")
    assert keeper.resume({"weight": np.zeros(3)}, 10)[1] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("not to be touched")
    with pytest.raises(RciError, match="exists and is not an artefact folder"):
        Keeper(tmp_path / "mine", 10, "a training").resume({"weight": np.zeros(3)}, 10)
    with pytest.raises(RciError, match="checkpoint_every must be at least 1"):
        learn(*_nothing(), checkpoint_every=0)


def _nothing():
    episodes = ragged([2, 2])
    labels = Labels.for_episodes(episodes, [1, -1])
    return episodes, labels, redistribute(episodes, labels, "sparse")


KILLED = """
import json, sys
import rci
from rci.learning import learn
episodes, labels, costs, behaviour = (rci.load(path) for path in sys.argv[1:5])
settings = json.loads(sys.argv[6])
print(learn(episodes, labels, costs, seed=3, behaviour=behaviour, checkpoint=sys.argv[5], **settings).hash)
"""


@pytest.mark.slow
def test_killed_without_warning(logs, tmp_path):
    """kill -9 at any time after the first checkpoint; the same command ends in the policy of an undisturbed one."""
    paths = [str(tmp_path / name) for name in ("episodes", "labels", "costs", "behaviour")]
    for record, path in zip(logs, paths):
        rci.save(record, path)
    kept, settings = tmp_path / "kept", {**SMALL, "updates": 60_000, "checkpoint_every": 500}
    command = [sys.executable, "-c", KILLED, *paths, str(kept), json.dumps(settings)]
    first = subprocess.Popen(command, env=os.environ)
    try:
        while not (kept / "manifest.json").exists():
            assert first.poll() is None
            time.sleep(0.01)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    done = store.read(kept, "checkpoint").info["update"]
    assert 500 <= done < 60_000
    short = {**settings, "updates": done + 1000}  # how long it goes on is no part of what it is
    command[-1] = json.dumps(short)
    resumed = subprocess.run(
        command, env=os.environ, capture_output=True, text=True, check=True
    ).stdout.strip()
    *data, behaviour = logs
    del short["checkpoint_every"]
    assert resumed == learn(*data, seed=3, behaviour=behaviour, **short).hash


def test_divergence_is_told_with_its_update(logs):
    *data, behaviour = logs
    with pytest.raises(
        RciError, match=r"at update \d+: multiplier rose to .*lower multiplier_rate, or allow"
    ):
        learn(*data, budget=0.0, behaviour=behaviour, **{**SMALL, "multiplier_rate": 1e7})
    with pytest.raises(RciError, match=r"at update \d+: \w+ is (nan|inf|-inf); lower learning_rate"):
        learn(*data, behaviour=behaviour, **{**SMALL, "learning_rate": 1e30})


def test_a_learner_cannot_pick_more_candidates_than_were_decoded(logs):
    *data, behaviour = logs
    with pytest.raises(RciError, match=r"keeps 4 proposals for each observation, but candidates is 5"):
        learn(*data, behaviour=behaviour, **{**SMALL, "candidates": 5})
    assert bcq_lagrangian.Config().candidates <= Config().proposals

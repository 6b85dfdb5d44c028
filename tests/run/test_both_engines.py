"""The same run on local processes and on Ray: every byte of every artefact and row is the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")

from rci.data.store import read_manifest

ROOT = Path(__file__).parent.parent.parent
COMMAND = "from rci.cli.main import main; main()"
GRID = """
task = "point"

[settings]
collect.episodes = 60
redistribute = {method = "rudder", epochs = 1, hidden = 4}
behaviour = {updates = 10, hidden = 8}
learn = {updates = 10, hidden = 8, batch_size = 16, model_updates = 5}
compare = {methods = ["rci"], budgets = [0.1], seeds = 1}
evaluate.episodes = 20

[grid]
seed = [0, 1]
"""
STUDY = """
import sys
from pathlib import Path
from tests.run.test_paper_study import SMALL, TINY, Engine, quiet, run_study

if __name__ == "__main__":
    out = Path(sys.argv[1])
    run_study([SMALL], TINY, out, out / "rows.json", Engine(*eval(sys.argv[2])), quiet)
"""


def rci(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, words)], capture_output=True, text=True, timeout=600
    )


def artefacts(out: Path) -> dict[str, bytes]:
    """Every file of every artefact below a folder."""
    return {
        str(file.relative_to(out)): file.read_bytes()
        for manifest in sorted(out.rglob("manifest.json"))
        for file in sorted(manifest.parent.iterdir())
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module")
def swept(place):
    """The same sweep on both engines, on Ray with a store between workers and run."""
    (place / "grid.toml").write_text(GRID)
    for name, more in (("local", ()), ("ray", ("--engine", "ray", "--store", place / "store"))):
        found = rci("sweep", place / "grid.toml", "--out", place / name, *more)
        assert found.returncode == 0, found.stderr
    return place / "local", place / "ray"


def test_a_sweep(swept):
    local, ray = swept
    assert artefacts(local) == artefacts(ray)
    assert len(artefacts(local)) > 30
    for name in ("sweep.json", "sweep.csv"):
        assert (local / name).read_bytes() == (ray / name).read_bytes()


def test_redistribution(swept, place):
    labels = min((swept[0] / "artefacts").glob("label-*"))
    parent = read_manifest(labels)["provenance"]["parents"]["episodes"]
    (episodes,) = [path for path in labels.parent.glob("collect-*") if read_manifest(path)["hash"] == parent]
    words = ["redistribute", episodes, labels, "--set", "members=2", "--set", "epochs=1", "--set", "hidden=4"]
    for name, more in (("local", ()), ("ray", ("--engine", "ray", "--workers", "2"))):
        found = rci(*words, "--out", place / f"costs-{name}", *more)
        assert found.returncode == 0, found.stderr
    assert artefacts(place / "costs-local") == artefacts(place / "costs-ray")
    assert artefacts(place / "costs-local-members") == artefacts(place / "costs-ray-members")


@pytest.mark.slow
def test_the_study_of_the_paper(place):
    """Two lengths of one training; on Ray, too, the longer one goes on from the shorter one."""
    (place / "study.py").write_text(STUDY)
    for name, engine in (("local", ("local", 1)), ("ray", ("ray", 1, None, str(place / "study-store")))):
        (place / f"study-{name}").mkdir()
        words = [sys.executable, place / "study.py", place / f"study-{name}", repr(engine)]
        found = subprocess.run(
            list(map(str, words)),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert found.returncode == 0, found.stderr
    local, ray = (
        json.loads((place / f"study-{name}" / "rows.json").read_text()) for name in ("local", "ray")
    )
    for row in (*local, *ray):
        del row["seconds"]
    assert local == ray
    assert len(local) == 2
    assert artefacts(place / "study-local") == artefacts(place / "study-ray")

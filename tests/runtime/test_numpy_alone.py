"""A robot needs NumPy alone: policies and monitors run in a process that can import nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from random_models import random_policy

import rci

PROGRAM = """
import sys
sys.path[:0] = [sys.argv[1]]
import rci.runtime
import numpy as np

action = rci.runtime.load(sys.argv[2]).act(np.load(sys.argv[3]))
np.save(sys.argv[4], action)
others = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"numpy", "rci", "__main__"}
print(*sorted(others))
"""


def only_numpy(folder: Path) -> Path:
    """A folder of packages with NumPy and this one in it."""
    folder.mkdir()
    places = (
        Path(np.__file__).parent,
        Path(np.__file__).parent.with_name("numpy.libs"),
        Path(rci.__file__).parent,
    )
    for place in places:
        if place.exists():
            os.symlink(place, folder / place.name)
    return folder


def robot(tmp_path, program, *arguments):
    """Run a program without the packages of this environment; -S leaves them out, -I what the user has set."""
    packages = only_numpy(tmp_path / "packages")
    command = [sys.executable, "-I", "-S", "-c", program, packages, *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def test_a_policy_acts_where_only_numpy_is_installed(tmp_path):
    policy = random_policy("feasible")
    policy.save(tmp_path / "policy")
    obs = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    np.save(tmp_path / "obs.npy", obs)
    done = robot(tmp_path, PROGRAM, tmp_path / "policy", tmp_path / "obs.npy", tmp_path / "action.npy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
    assert (
        np.abs(np.load(tmp_path / "action.npy") - rci.runtime.load(tmp_path / "policy").act(obs)).max() == 0.0
    )


def test_the_command_line_says_what_is_missing_there(tmp_path):
    program = "import sys; sys.path[:0] = [sys.argv[1]]; from rci.__main__ import main; main()"
    done = robot(tmp_path, program)
    assert done.returncode == 2
    assert "needs the package 'typer', which is not installed: pip install rci" in done.stderr
    assert "Traceback" not in done.stderr

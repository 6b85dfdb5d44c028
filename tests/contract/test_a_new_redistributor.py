"""A new method is one file and one entry: the exam of all redistributors then passes as it stands."""

import os
import subprocess
import sys
from pathlib import Path

METHOD = '''
"""Late: the cost of a step grows with how far the observation moved."""

from dataclasses import dataclass
from typing import NamedTuple

import jax

from rci.redistribution.learned import StepNetwork, learned


@dataclass(frozen=True)
class Config:
    hidden: int = 8


class Hyper(NamedTuple):
    learning_rate: float = 1e-3


def make(config):
    def loss(key, network, batch):
        step = network(batch.obs, batch.action)[..., 0]
        return jax.numpy.mean((jax.numpy.sum(step * batch.mask, 1) - batch.cost) ** 2)

    def build(key, data):
        return StepNetwork(key, data, config.hidden, 1)

    return learned(build, loss, lambda network, *pair: network(*pair)[..., 0], scores="step")
'''
ENTRY = """
import late
from rci.redistribution import REDISTRIBUTORS
from rci.redistribution.base import Method

REDISTRIBUTORS["late"] = Method(late.make, late.Config, late.Hyper)
"""


def test_one_file_and_one_entry_pass_the_exam(tmp_path):
    (tmp_path / "late.py").write_text(METHOD)
    (tmp_path / "entry.py").write_text(ENTRY)
    exam = Path(__file__).with_name("test_redistributors.py")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # -p loads the entry before the exam is collected, as if it stood in the registry
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "entry",
        "-p",
        "no:cacheprovider",
        str(exam),
        "-k",
        "late",
    ]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert int(done.stdout.split(" passed")[0].split()[-1]) >= 15

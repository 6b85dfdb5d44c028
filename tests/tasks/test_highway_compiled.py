"""Where machine code is kept: never stale, never in the way. Each question is a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASK = "from rci.tasks.highway.physics.compiled import code_folder; print(code_folder())"


def ask(**environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "RCI_CACHE")}
    return subprocess.run(
        [sys.executable, "-c", ASK],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("variable", ["RCI_CACHE", "NUMBA_CACHE_DIR"])
def test_the_folder_is_named_after_the_source(variable, tmp_path):
    folder = Path(ask(**{variable: str(tmp_path)}).stdout.strip())
    assert folder.parent == tmp_path
    assert folder.name.startswith("highway-")


def test_without_a_folder_there_is_one_warning_and_no_cache(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    answer = ask(RCI_CACHE=str(file))
    assert answer.stdout.strip() == ""
    assert answer.stderr.count("every process compiles the highway anew") == 1

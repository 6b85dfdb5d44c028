"""The arrows of the house: stages import the ground floor, never each other, and nothing imports run/."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rci

ROOT = Path(rci.__file__).parent
GROUND = {"data", "nets", "tasks"}
STAGES = {"collection", "labeling", "redistribution", "learning", "evaluation", "reporting"}
TAKEN_AWAY = {"runtime"}  # runs without JAX, so it knows artefacts and nothing else
ALLOWED = {
    "data": set(),
    "nets": {"data"},
    "tasks": {"data"},
    **dict.fromkeys(STAGES, GROUND),
    "runtime": {"data"},
    "run": GROUND | STAGES | TAKEN_AWAY | {""},
    "": GROUND | STAGES | TAKEN_AWAY,  # the facade rci/__init__.py
}
PACKAGES = GROUND | STAGES | TAKEN_AWAY | {"run"}


def packages_imported_by(source: str) -> set[str]:
    """First part below `rci` of everything that a file imports, wherever in the file it does so."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                raise AssertionError("relative imports hide the arrows")
            names = [node.module or ""]
            if node.module == "rci":
                names = [f"rci.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "rci":
                found.add(parts[1] if len(parts) > 1 and parts[1] in PACKAGES else "")
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_plan(path):
    parts = path.relative_to(ROOT).parts
    package = parts[0] if len(parts) > 1 else ""
    assert packages_imported_by(path.read_text()) <= ALLOWED[package] | {package}


def test_the_check_sees_a_forbidden_import():
    assert packages_imported_by("def f():\n    from rci.learning import learn") == {"learning"}
    assert packages_imported_by("from rci import run, __version__") == {"run", ""}


def test_every_package_is_on_the_plan():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == PACKAGES


@pytest.mark.parametrize("heavy", ["jax", "numpy", "scipy", "matplotlib", "gymnasium"])
def test_importing_rci_loads_nothing_heavy(heavy):
    code = f"import sys, rci, rci.run.cli; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "heavy", ["jax", "scipy", "matplotlib", "gymnasium", "numba", "rci.learning", "rci.nets"]
)
def test_importing_the_runtime_loads_nothing_heavy(heavy):
    code = f"import sys, rci.runtime; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_resolves():
    for name in rci.__all__:
        assert getattr(rci, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        rci.nonsense  # noqa: B018

"""The arrows of the house: ground floor, stages, upper floor, roof; nothing imports what is above it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from conftest import COMPILES, LONGEST, TESTS

import rci

ROOT = Path(rci.__file__).parent
GROUND = {"data", "formats", "nets", "tasks"}
STAGES = {"collection", "labeling", "redistribution", "learning", "evaluation", "reporting"}
BESIDE = {"deploy"}  # runs without JAX, so it knows artefacts; only the export to ONNX looks at networks
UPPER = {"engines", "pipeline", "shards", "studies"}
ROOF = {"cli", "benchmarks"}
FACADE = ""  # rci/__init__.py and rci/runtime.py
BELOW_STUDIES = GROUND | STAGES | BESIDE | {"engines", "pipeline", FACADE}
ALLOWED = {
    "data": set(),
    "formats": {"data"},
    "nets": {"data"},
    "tasks": {"data"},
    **{stage: {"data", "nets", "tasks"} for stage in STAGES},
    "deploy": {"data", "nets"},
    "engines": {"data"},
    "pipeline": GROUND | STAGES | BESIDE | {"engines", FACADE},
    "shards": GROUND | STAGES | {"engines", "pipeline"},
    "studies": BELOW_STUDIES,
    "benchmarks": BELOW_STUDIES | {"shards", "studies"},
    "cli": BELOW_STUDIES | {"shards", "studies", "benchmarks"},
    FACADE: GROUND | STAGES | BESIDE,
}
PACKAGES = GROUND | STAGES | BESIDE | UPPER | ROOF


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
    package = parts[0] if len(parts) > 1 else "cli" if path.name == "__main__.py" else FACADE
    assert packages_imported_by(path.read_text()) <= ALLOWED[package] | {package}


def test_the_check_sees_a_forbidden_import():
    assert packages_imported_by("def f():\n    from rci.learning import learn") == {"learning"}
    assert packages_imported_by("from rci import cli, __version__") == {"cli", ""}


def test_every_package_is_on_the_plan():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == PACKAGES


# --- cycles --------------------------------------------------------------------------------------------------------

# Knots of modules that need each other, untied at import by an import inside of a function. Only to become fewer.
KNOWN_KNOTS = {
    frozenset({"rci.data.artefacts.costs", "rci.data.artefacts.models", "rci.data.store", "rci.data.types"}),
}


def modules() -> dict[str, str]:
    """The source of every module by its dotted name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("rci", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


def import_statements(node: ast.AST, inside_functions: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Those that are executed when a module is imported; on demand those of its functions as well."""
    for child in ast.iter_child_nodes(node):
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not for_types and (inside_functions or not function):
            yield from import_statements(child, inside_functions)


def import_graph(sources: Mapping[str, str], inside_functions: bool) -> dict[str, set[str]]:
    """Which modules each module imports."""
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        imported = set()
        for node in import_statements(ast.parse(source), inside_functions):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                imported |= {name if name in sources else node.module for name in names}
            else:
                imported |= {alias.name for alias in node.names}
        graph[module] = imported & set(sources)
    return graph


def path_between(graph: Mapping[str, set[str]], start: str, end: str) -> list[str]:
    """A shortest way along the imports from a module to another, or to itself; nothing if there is none."""
    ways = [[start]]
    seen: set[str] = set()
    for way in ways:  # which grows meanwhile
        for module in sorted(graph[way[-1]] - seen):
            if module == end:
                return [*way, module]
            seen.add(module)
            ways.append([*way, module])
    return []


def knots(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules each of which imports, over whatever others, every other one of its set."""
    reached = {start: reached_from(graph, start) for start in graph}
    return {
        frozenset(end for end in reached[start] if start in reached[end])
        for start in graph
        if start in reached[start]
    }


def reached_from(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """What a module imports, directly or over others."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def described(graph: Mapping[str, set[str]], knot: frozenset[str]) -> str:
    """One cycle through a knot."""
    return " -> ".join(path_between(graph, min(knot), min(knot)))


def test_no_module_imports_itself_in_a_circle():
    graph = import_graph(modules(), inside_functions=False)
    assert [described(graph, knot) for knot in knots(graph)] == []


def test_imports_inside_of_functions_tie_no_new_knot():
    graph = import_graph(modules(), inside_functions=True)
    tied = knots(graph)
    assert [described(graph, knot) for knot in tied - KNOWN_KNOTS] == []
    untied = [sorted(knot) for knot in KNOWN_KNOTS - tied]
    assert untied == [], "these are no knots any more: take them from KNOWN_KNOTS"


def test_the_check_sees_a_cycle():
    sources = {
        "rci.a": "from rci import b",
        "rci.b": "import rci.c\nfrom rci.d import x",
        "rci.c": "def f():\n    from rci.a import y",
        "rci.d": "if TYPE_CHECKING:\n    import rci.a",
    }
    assert knots(import_graph(sources, inside_functions=False)) == set()
    graph = import_graph(sources, inside_functions=True)
    (knot,) = knots(graph)
    assert described(graph, knot) == "rci.a -> rci.b -> rci.c -> rci.a"


# --- what is loaded ------------------------------------------------------------------------------------------------


@cache
def loaded_by(*names: str) -> list[str]:
    """The modules that a process has loaded once it has imported these."""
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize("heavy", ["jax", "numpy", "scipy", "matplotlib", "gymnasium"])
def test_importing_rci_loads_nothing_heavy(heavy):
    assert heavy not in loaded_by("rci", "rci.cli.main", "rci.__main__")


@pytest.mark.parametrize(
    "heavy", ["jax", "scipy", "matplotlib", "gymnasium", "numba", "rci.learning", "rci.nets"]
)
def test_importing_the_runtime_loads_nothing_heavy(heavy):
    assert heavy not in loaded_by("rci.runtime")


def test_every_public_name_resolves():
    for name in rci.__all__:
        assert getattr(rci, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        rci.nonsense  # noqa: B018


def test_the_lists_of_long_tests_name_files_that_exist():
    assert [pattern for pattern in COMPILES if not list(TESTS.glob(pattern))] == []
    assert [name for name in LONGEST if not list(TESTS.rglob(name))] == []

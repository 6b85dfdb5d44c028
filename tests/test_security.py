"""Nothing that is read runs code. No module of src/ has a way to do it: these are the ways, and none is there."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# Modules that run what a file says, or unpack names of files as they stand in an archive.
FORBIDDEN_MODULES = {
    "pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "torch",
    "tarfile",
}
FORBIDDEN_MODULES |= {"cPickle", "jsonpickle", "code", "codeop", "runpy", "imp"}
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_METHODS = {"extractall", "unpack_archive", "read_pickle", "system", "popen", "getoutput"}
FORBIDDEN_METHODS |= {"tree_deserialise_leaves", "enable_interactive", "unsafe_load"}
LOADERS = {
    "load",
    "save",
    "open_memmap",
    "read_array",
    "write_array",
    "fromfile",
}  # of numpy; these can pickle
NAMED_IN_CODE = {  # modules that are imported by a name; the names stand in our own code, never in a file
    "src/rci/__init__.py",
    "src/rci/formats/importing/imported.py",
    "src/rci/reporting/trackers/tracker.py",
    "src/rci/tasks/fetch_reach/workbench.py",
}


def dangers(source: str, name: str = "snippet.py") -> Iterator[str]:
    """Every way in that a piece of source leaves open."""
    for node in ast.walk(ast.parse(source)):
        where = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
            yield from (f"{where} imports {n}" for n in names if n.split(".")[0] in FORBIDDEN_MODULES)
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        last = called.rsplit(".", 1)[-1]
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if called in FORBIDDEN_NAMES or ("." in called and last in FORBIDDEN_METHODS):
            yield f"{where} calls {called}"
        if re.match(r"(np|numpy)\.", called) and last in LOADERS - {"fromfile"}:
            allowed = keywords.get("allow_pickle")
            if not isinstance(allowed, ast.Constant) or allowed.value is not False:
                yield f"{where} calls {called} without allow_pickle=False"
        shell = keywords.get("shell")
        if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
            yield f"{where} gives {called} a shell"
        if (
            last == "import_module"
            and name not in NAMED_IN_CODE
            and not isinstance(node.args[0], ast.Constant)
        ):
            yield f"{where} imports a module whose name is not in the code"


@pytest.mark.parametrize(
    "snippet",
    [
        "import pickle",
        "from pickle import loads",
        "import os.path, joblib",
        "def f():\n    import cloudpickle",
        "from yaml import load",
        "import torch",
        "import tarfile",
        "eval('1')",
        "exec(text)",
        "__import__(name)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
        "numpy.load(path, mmap_mode='r')",
        "np.lib.format.open_memmap(path)",
        "np.lib.format.read_array(file)",
        "np.save(path, array)",
        "zipfile.ZipFile(path).extractall(folder)",
        "shutil.unpack_archive(path)",
        "subprocess.run(text, shell=True)",
        "subprocess.run(text, shell=flag)",
        "os.system(text)",
        "pandas.read_pickle(path)",
        "importlib.import_module(name)",
        "eqx.tree_deserialise_leaves(path, like)",
    ],
)
def test_the_check_finds_a_danger(snippet):
    assert len(list(dangers(snippet))) == 1


def test_the_check_lets_harmless_code_pass():
    harmless = "import json\nnp.load(path, allow_pickle=False)\nre.compile('a')\nsubprocess.run(['ls'])\nmodel.eval()"
    assert list(dangers(harmless)) == []


def test_no_source_can_run_what_it_reads():
    assert len(SOURCES) > 100
    found = [
        danger
        for path in SOURCES
        for danger in dangers(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    ]
    assert found == []


def test_json_and_toml_that_are_nested_too_deeply_are_provided_for():
    """A reader of JSON that does not catch RecursionError can be brought down by a file of brackets."""
    trusted = {  # what this program has written itself a moment before, or ships
        "cli/pipeline.py", "benchmarks/importing.py", "benchmarks/deploy.py", "benchmarks/serving.py",
        "tasks/highway/parity.py",
    }  # fmt: skip
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT / "src" / "rci").as_posix()
        reads = re.search(r"(json|tomllib)\.loads\((?!json\.dumps)", text)
        if reads and name not in trusted:
            assert "RecursionError" in text, f"{name} reads {reads.group()} and knows no RecursionError"


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for group in project["optional-dependencies"].values() for text in group]
    found = [Requirement(text) for text in [*project["dependencies"], *extras]]
    return [requirement for requirement in found if requirement.name != "rci"]


def test_the_versions_of_python_are_bounded_and_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = SpecifierSet(project["requires-python"])
    named = [text.split(" :: ")[-1] for text in project["classifiers"] if ":: Python :: 3." in text]
    assert named == ["3.11", "3.12", "3.13"]
    assert all(supported.contains(f"{version}.0") for version in named)
    assert not supported.contains("3.10.9")
    assert not supported.contains("3.14.0")
    assert "(3, 11) <= sys.version_info < (3, 14)" in (ROOT / "Makefile").read_text(encoding="utf-8")
    installing = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    assert all(f"| {version}" in installing for version in named)


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    for requirement in found:
        assert [bound.operator for bound in requirement.specifier] == ["=="], requirement
    return {
        canonicalize_name(requirement.name): next(iter(requirement.specifier)).version
        for requirement in found
    }


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_every_dependency_is_bounded_on_both_sides_and_pinned_within(requirement):
    operators = {bound.operator for bound in requirement.specifier}
    assert ">=" in operators
    assert "<" in operators
    pinned = pins()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned), f"{requirement} does not allow {pinned} of constraints.txt"

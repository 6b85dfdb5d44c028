"""The docs cannot rot: their Python runs, their commands parse, and every name in them exists.

In a Python block, a first line such as `# src/rci/learning/one_step.py` makes the block a module of that name for
the rest of its page. A block below `<!-- not executed -->` is left alone.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import itertools
import json
import math
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
import typer
from conftest import ragged

import rci
from rci.benchmarks.faults import VICTIMS, WHAT
from rci.benchmarks.faults import failures as fault_failures
from rci.benchmarks.simulators import ARM, INSTALLED, STRICTLY, bench_table, parity_failures
from rci.cli.main import app
from rci.collection.demonstrators import train_demonstrators
from rci.collection.informed import train_informed
from rci.collection.ppo import Config
from rci.data import store
from rci.data.artefacts.policy_estimates import Estimates
from rci.data.artefacts.reference import COLUMNS, Reference
from rci.data.risk.estimates import Interval, PolicyEstimate, Support
from rci.data.types import Checkpoint, Episodes, Labels, Policy, SavedModel, SavedMonitor
from rci.labeling.rules import read_stops
from rci.learning import LEARNERS, fit_behaviour, learn
from rci.learning import behaviour as behaviour_model
from rci.learning.base import Method as LearnerMethod
from rci.learning.judging.simulation import calibration
from rci.pipeline.commands.comparison import results_of
from rci.redistribution import REDISTRIBUTORS, redistribute, score
from rci.redistribution.base import Method as RedistributorMethod
from rci.redistribution.base import Training
from rci.reporting.comparison.results import markdown
from rci.runtime import METHODS
from rci.studies.ladder import budget_table, ladder_table
from rci.studies.paper.document import other_rows, results_document, tables_document
from rci.studies.reference.table import criteria, criteria_lines, reference_table
from rci.studies.shift import shift_table
from rci.tasks import TASKS
from rci.tasks.fetch_reach.parity import CASES as ARM_CASES
from rci.tasks.highway.parity import CASES

ROOT = Path(__file__).parents[1]
SOURCE, TESTS, DOCS = ROOT / "src" / "rci", ROOT / "tests", ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
SKIP = "<!-- not executed -->"

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


class Block(NamedTuple):
    """A fenced block: its language, its text, the line of its fence, and the line of text above it."""

    language: str
    text: str
    line: int
    above: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in these languages."""
    found, above, opened, body = [], "", None, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = re.match(r"\s*```+\s*(\w*)", line)
        if opened is not None and not fence:
            body.append(line)
        elif opened is not None:
            found.append(Block(opened[0], "\n".join(body) + "\n", opened[1], above))
            opened, above, body = None, "", []
        elif fence:
            opened = fence.group(1), number
        elif line.strip():
            above = line.strip()
    assert opened is None, f"{page}: the block of line {opened[1]} is never closed"
    return [block for block in found if block.language in languages]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^\s*```.*?^\s*```\s*$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def module_name(block: Block) -> str | None:
    """rci.learning.one_step, if the block says that it is such a file."""
    path = re.match(r"# src/(rci/[\w/]+)\.py\n", block.text)
    return path.group(1).replace("/", ".") if path else None


@pytest.fixture
def load_module(monkeypatch, tmp_path):
    """Makes a block the module that it says it is, until the test ends."""

    def load(block: Block) -> ModuleType:
        name = module_name(block)
        parent, _, short = name.rpartition(".")
        assert importlib.util.find_spec(name) is None, f"{name} exists: the docs need another example"
        file = tmp_path / f"{short}.py"
        file.write_text(block.text)
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(importlib.import_module(parent), short, module, raising=False)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def method_from(load_module):
    """A method of the docs by its module's name, such as rci.redistribution.clock."""

    def find(page: str, name: str, entry: type):
        (block,) = [b for b in blocks(DOCS / page, "python") if module_name(b) == name]
        module = load_module(block)
        return entry(module.make, module.Config, module.Hyper)

    return find


# --- every page -----------------------------------------------------------------------------------------------


@pytest.fixture
def registries():
    """What a page registers is forgotten after it."""
    known = [(registry, dict(registry)) for registry in (REDISTRIBUTORS, LEARNERS, TASKS)]
    yield
    for registry, before in known:
        registry.clear()
        registry.update(before)


def fit_briefly(episodes, labels, seed=0, config=None, **more):
    """fit_behaviour, but where a page leaves the length of its training to the default, it is short."""
    return fit_behaviour(episodes, labels, seed, config or behaviour_model.Config(updates=100), **more)


@every_page
def test_python_blocks_run(page, registries, load_module, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for place in (rci.learning, rci.learning.policy_training):
        monkeypatch.setattr(place, "fit_behaviour", fit_briefly)
    monkeypatch.setattr(calibration, "STEPS", 800)  # it is enough that pages run
    namespace = ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, namespace.__name__, namespace)
    for block in blocks(page, "python", "py"):
        if block.above == SKIP:
            continue
        if module_name(block):
            load_module(block)
        else:
            code = "\n" * block.line + block.text  # so that a traceback names the line of the page
            exec(compile(code, str(page), "exec"), namespace.__dict__)


def commands(page: Path) -> list[list[str]]:
    """The words of every command in the shell blocks of a page."""
    found = []
    for block in blocks(page, "bash", "sh", "shell", "console"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="&|;<>")
            words.whitespace_split = True
            command: list[str] = []
            for word in [*words, ";"]:
                if word[0] in "&|;":
                    found.append(command)
                    command = []
                else:
                    command.append(word)
    return [command for command in found if command]


def check_command(words: list[str]) -> None:
    """Parse a command of `rci` as the command line itself would, without running it."""
    group = typer.main.get_command(app)
    redirected = next((i for i, word in enumerate(words) if word[0] in "<>"), len(words))
    arguments = words[1:redirected]
    name = arguments[0] if arguments and not arguments[0].startswith("-") else None
    assert name is None or name in group.commands, f"rci has no command {name!r}"
    try:
        if name is None:
            group.make_context("rci", arguments)
        else:
            group.commands[name].make_context(name, arguments[1:])
    except typer.Exit:  # --help
        pass


@every_page
def test_commands_parse(page, capsys):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for words in commands(page):
        if Path(words[0]).name == "rci":
            check_command(words)
        elif words[0] == "make":
            goals = {word for word in words[1:] if "=" not in word and not word.startswith("-")}
            assert goals <= targets, f"the Makefile has no {', '.join(sorted(goals - targets))}"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("rci lern a b c --out x", "no command 'lern'"),
        ("rci learn a b c --out x --bugdet 0.1", "No such option"),
        ("rci learn a b --out x", "(?i)missing"),
        ("rci collect point --episodes many --out x", "valid int"),
    ],
)
def test_a_wrong_command_is_noticed(command, message):
    with pytest.raises(Exception, match=message):
        check_command(shlex.split(command))


def test_commands_are_found_in_blocks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```bash\n$ cd x && rci run point \\\n  --out y  # say\nrci inspect y > z | less\n```\n")
    assert commands(page) == [
        ["cd", "x"], ["rci", "run", "point", "--out", "y"], ["rci", "inspect", "y", ">", "z"], ["less"]
    ]  # fmt: skip


@every_page
def test_tests_and_links_named_on_a_page_exist(page):
    text = prose(page)
    named = set(re.findall(r"`(?:[\w/.]+:+)?(test_\w+)`", text))
    assert named <= set().union(*(functions(path) for path in TESTS.rglob("test_*.py")))
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert "://" in target or (page.parent / target).exists(), target


# --- docs/equations.md ----------------------------------------------------------------------------------------


class Row(NamedTuple):
    equation: str
    reference: str
    function: str
    test: str


@cache
def functions(path: Path) -> dict[str, ast.AST]:
    """Every function and class of a file under its dotted name, nested ones included."""
    found: dict[str, ast.AST] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found[prefix + child.name] = child
                visit(child, f"{prefix}{child.name}.")

    visit(ast.parse(path.read_text()), "")
    return found


def equation_rows() -> list[Row]:
    lines = [line for line in prose(DOCS / "equations.md").splitlines() if line.startswith("|")]
    rows = [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]
    return [row for row in rows if row.equation not in ("equation", "---")]


def test_the_table_is_there():
    assert len(equation_rows()) > 40


@pytest.mark.parametrize("row", equation_rows(), ids=lambda row: f"{row.function} {row.equation[:20]}")
def test_an_equation_its_function_and_its_test_exist(row):
    assert row.equation
    assert row.reference
    file, _, function = row.function.strip("`").partition(":")
    test_file, _, test = row.test.strip("`").partition(":")
    assert function in functions(SOURCE / file)
    tests = functions(TESTS / test_file)
    assert test in tests
    # the test is of this function: it uses the function, or for a nested one the function around it
    used = names_used(test, tests)
    assert used & {function.split(".")[0], function.split(".")[-1]}


def names_used(start: str, known: dict[str, ast.AST]) -> set[str]:
    """The names in a function, and in the functions of the same file that it calls."""
    used: set[str] = set()
    waiting = {start}
    while waiting:
        for node in ast.walk(known[waiting.pop()]):
            name = getattr(node, "id", None) or getattr(node, "attr", None)
            if name and name not in used:
                used.add(name)
                waiting |= {name} & set(known)
    return used


COMPLETE = ["learning/losses.py", "learning/budget.py", "redistribution/conserve.py"]


def expected_equations() -> set[str]:
    """All public functions of the files of equations, and whatever says which equation of the paper it is."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        file = path.relative_to(SOURCE).as_posix()
        for name, node in functions(path).items():
            public = isinstance(node, ast.FunctionDef) and not name.startswith("_") and "." not in name
            if (file in COMPLETE and public) or "Paper:" in (ast.get_docstring(node) or ""):
                found.add(f"{file}:{name}")
    return found - {"learning/budget.py:parse_budget"}


def test_no_equation_is_missing():
    assert expected_equations() - {row.function.strip("`") for row in equation_rows()} == set()


# --- docs/adding_a_redistributor.md ---------------------------------------------------------------------------

EXAMPLES = ("clock", "additive")
EXAMPLES_PAGE = DOCS / "adding_a_redistributor.md"


def registration(page: Path) -> str:
    """The statements of a page that enter its methods, and the imports that they need."""
    text = "".join(block.text for block in blocks(page, "python") if not module_name(block))
    return "\n".join(re.findall(r"^(?:from rci[.\w]* import .+|REDISTRIBUTORS\[.+)$", text, re.MULTILINE))


@pytest.fixture(params=EXAMPLES)
def example(request, registries, load_module):
    """The name under which a redistributor of the docs is registered, in the way that the page shows."""
    for block in blocks(EXAMPLES_PAGE, "python"):
        if module_name(block):
            load_module(block)
    exec(registration(EXAMPLES_PAGE), {})
    return request.param


def briefly(method: str) -> dict[str, int]:
    """Settings of a short training, for a method that trains."""
    return {"epochs": 2} if Training in REDISTRIBUTORS[method].shared else {}


def test_the_examples_pass_the_whole_exam(tmp_path):
    """As on the page: one file, one entry, and the contract tests examine it."""
    for block in blocks(EXAMPLES_PAGE, "python"):
        if module_name(block):
            (tmp_path / f"{module_name(block).rpartition('.')[2]}.py").write_text(block.text)
    found = f"import rci.redistribution\nrci.redistribution.__path__.append({str(tmp_path)!r})\n"
    (tmp_path / "entries.py").write_text(found + registration(EXAMPLES_PAGE))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # -p loads the entries before the exam is collected, as if they stood in the registry
    exam = ["-p", "entries", str(TESTS / "contract" / "test_redistributors.py"), "-k", " or ".join(EXAMPLES)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-vv", *exam],
        env={**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    for name in EXAMPLES:
        assert len(re.findall(rf"\[{name}\b.* PASSED", done.stdout)) >= 15, done.stdout[-2000:]


def test_an_example_redistributor_keeps_the_contract(example, point_episodes, point_labels, tmp_path):
    settings = briefly(example)
    one, two = (redistribute(point_episodes, point_labels, example, seed=4, **settings) for _ in range(2))
    assert one.hash == two.hash
    assert [len(c) for c in one.per_episode()] == point_labels.kept_lengths.tolist()
    assert np.abs(one.sums() - point_labels.cost).max() <= 1e-6
    again = store.read(store.write(tmp_path / "costs", one))
    check_arrays(tmp_path / "costs")
    assert again.hash == one.hash
    assert np.array_equal(again.cost, one.cost)


def test_an_example_redistributor_sees_nothing_behind_the_stop(example, point_episodes, point_labels):
    arrays = {name: np.array(array) for name, array in point_episodes.arrays().items()}
    for i in np.flatnonzero(point_labels.stopped):
        after = slice(
            *(point_episodes.obs_offset[i] + [point_labels.stop_index[i] + 1, arrays["lengths"][i] + 1])
        )
        arrays["obs"][after] = 0.77
    changed = Episodes(**arrays)
    labels = Labels.for_episodes(changed, point_labels.stop_index)
    one, two = (
        redistribute(*pair, example, **briefly(example))
        for pair in ((point_episodes, point_labels), (changed, labels))
    )
    assert np.array_equal(one.cost, two.cost)


def test_the_trained_example_learns_and_scores_new_episodes(method_from, monkeypatch):
    """A cost that is truly additive: one step of each stopped episode, and none of a safe one, is a bad one."""
    entry = method_from("adding_a_redistributor.md", "rci.redistribution.additive", RedistributorMethod)
    monkeypatch.setitem(REDISTRIBUTORS, "additive", entry)
    episodes = ragged([4] * 60, seed=2)
    arrays = {**episodes.arrays(), "action": np.zeros((240, 2), np.float32)}
    bad = np.arange(60) % 2 == 0
    arrays["action"][np.arange(60) * 4 + 1, 0] = bad  # at the second step
    episodes = Episodes(**arrays)
    labels = Labels.for_episodes(episodes, np.where(bad, 3, -1))
    settings = {"epochs": 40, "batch_size": 8, "learning_rate": 1e-2, "patience": 40}
    costs = redistribute(episodes, labels, "additive", **settings)
    assert costs.info["held_out_loss"][-1] < 0.3 * costs.info["held_out_loss"][0]
    found = [np.argmax(c) == 1 for c, was_bad in zip(costs.per_episode(), bad) if was_bad]
    assert np.mean(found) > 0.8
    scores = score(costs, episodes)
    assert [len(s) for s in scores] == [4] * 60
    assert scores[0][:3] == pytest.approx(costs.per_episode()[0][:3], abs=1e-6)  # the last one is compensated


# --- docs/adding_a_learner.md ---------------------------------------------------------------------------------


@pytest.fixture
def one_step(method_from, monkeypatch):
    """The learner of the docs, registered."""
    entry = method_from("adding_a_learner.md", "rci.learning.one_step", LearnerMethod)
    monkeypatch.setitem(LEARNERS, "one-step", entry)
    return entry


@pytest.fixture(scope="module")
def probe():
    """One action in [-1, 1]: it pays itself, and above 0 it is unsafe."""
    episodes = ragged([1] * 400, seed=7, action_size=1)
    arrays = {**episodes.arrays(), "terminated": np.ones(400, bool)}
    arrays["reward"] = arrays["action"][:, 0].copy()
    episodes = Episodes(**arrays)
    labels = Labels.for_episodes(episodes, np.where(arrays["action"][:, 0] > 0, 0, -1))
    config = behaviour_model.Config(hidden=32, updates=1000, latent_limit=2.0)
    costs = redistribute(episodes, labels, "sparse")
    return episodes, labels, costs, fit_behaviour(episodes, labels, 0, config)


def test_the_example_learner_keeps_the_contract(one_step, probe, tmp_path):
    *logged, behaviour = probe
    obs = logged[0].obs[:100]
    tiny = {"hidden": 32, "batch_size": 64, "target_rate": 0.05, "multiplier_rate": 0.02, "updates": 600}

    def train(budget, **changes):
        return learn(*logged, "one-step", budget, behaviour=behaviour, **{**tiny, **changes})

    training = importlib.import_module("rci.learning.train")
    safe = train(0.0)
    _, run = training._compiled(one_step.make, one_step.config(hidden=32, batch_size=64))
    compiled = run._cache_size()
    greedy = train(math.inf)
    assert safe.act(obs).mean() < 0.1
    assert greedy.act(obs).mean() > 0.6
    assert safe.info["multiplier"] > 0
    assert greedy.info["multiplier"] == 0

    one, two, other = train("P30", updates=5), train("P30", updates=5), train("P30", updates=5, seed=1)
    assert one.hash == two.hash != other.hash
    assert run._cache_size() == compiled

    safe.save(tmp_path / "policy")
    check_arrays(tmp_path / "policy")
    again = rci.load(tmp_path / "policy")
    assert np.array_equal(again.act(obs), safe.act(obs))
    assert again.act(obs[0]) == pytest.approx(safe.act(obs)[0], abs=1e-5)
    assert again.info["predicted_return"] == safe.info["predicted_return"]


# --- docs/data_format.md --------------------------------------------------------------------------------------


def documented(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading, by their first cell."""
    text = (DOCS / "data_format.md").read_text().split(f"# {heading}\n", 1)[1]
    section = re.split(r"^#+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in rows}


SOMETIMES = {"spread", "proposal"}  # arrays that only some artefacts of a kind have


def check_arrays(folder: Path) -> None:
    """Hold an artefact against its table: every array and everything in its description is documented."""
    record, manifest = store.read(folder), store.read_manifest(folder)
    table, arrays = documented(record.kind), record.arrays()
    exact = {name for name in table if "*" not in name}
    patterns = {name.removesuffix("*") for name in table} - exact
    assert exact - SOMETIMES <= set(arrays)
    assert all(name in exact or name.startswith(tuple(patterns)) for name in arrays)
    unused = {pattern for pattern in patterns if not any(name.startswith(pattern) for name in arrays)}
    assert unused <= {"model."}  # not every redistributor is a model
    episodes = len(arrays.get("lengths", ()))
    steps = int(np.sum(arrays.get("lengths", 0)))
    policies = len(getattr(record, "info", {}).get("checkpoints", getattr(record, "drivers", ())))
    for name in exact & set(arrays):
        shape, dtype, _ = table[name]
        assert arrays[name].dtype.name == dtype.removesuffix(", as given"), name
        rows = re.match(r"`\[([SNKPOM +]+)", shape).group(1).split(" + ")
        counts = {
            "N": episodes,
            "S": steps,
            "K": steps,
            "P": policies,
            "O": len(arrays.get("proposal", ())),
            "M": len(arrays.get("begin", ())),
        }
        assert len(arrays[name]) == sum(counts[letter] for letter in rows)
        assert arrays[name].ndim == 1 or "..." in shape
    section = (DOCS / "data_format.md").read_text().split(f"\n### {record.kind}\n", 1)[1]
    assert all(f"`{name}`" in section.split("| array", 1)[0] for name in manifest["meta"])


def test_the_tables_of_arrays_are_right(probe, tmp_path):
    """The tables of costs and policies are checked with the examples above."""
    episodes, oracle = rci.collect("point", 20, seed=0)

    def stay(seed, memory, obs):
        return np.zeros((len(obs), 2), np.float32), memory

    policy = Policy(SavedModel("by hand", {}, {}), {"obs_size": 4}, step=stay)
    scores = rci.evaluate(policy, "point", episodes=4)
    config = Config(total_steps=32, num_envs=2, rollout_length=8, minibatches=1, hidden=(4,), checkpoints=2)
    trained = train_demonstrators("point", 0, config)
    checked = {"costs", "policy"}
    kept = Checkpoint(
        SavedModel("checkpoint", {}, {"weight": np.ones(3)}), {"training": "", "update": 1, "history": []}
    )
    watch = SavedMonitor(SavedModel("rudder", {}, {"0.0.0.network.cell.bias": np.ones(3)}), {"level": 0.5})
    blind = train_informed("point", 0.0, 0, config)
    possible = Reference.of("point", [{**dict.fromkeys(COLUMNS, 0.5), "driver": "blind"}])
    labels = rci.label(episodes, "point")
    driven = rci.Takeovers(np.array([3]), np.array([0]), np.array([2]), episodes.lengths, episodes.hash)
    certain = Interval(0.5, 0.0, 1.0)
    said = PolicyEstimate(
        certain, certain, {}, Support(0.0, 0.0, 0.0, 1.0), certain, certain, 20, 0.9, 0.0, 1.0
    )
    judged = Estimates({"5": said}, "held-out")
    some = (trained, blind, possible, episodes, oracle, labels, probe[3], kept, watch, scores, driven, judged)
    for record in some:
        check_arrays(store.write(tmp_path / record.kind, record))
        checked.add(record.kind)
    assert checked == set(store.KINDS)


def test_the_table_of_the_manifest_is_right(tmp_path):
    written = store.write(tmp_path / "labels", Labels.for_episodes(ragged([3]), [1]))
    manifest = store.read_manifest(written)  # which takes the checksum out
    table = {name: cells[0] for name, cells in documented("The manifest").items()}
    assert set(table) == {*manifest, "checksum"}
    assert f"now {store.FORMAT_VERSION}." in table["format"]
    assert all(f"`{name}`" in table["provenance"] for name in manifest["provenance"])
    assert all(f"`{name}`" in table["arrays"] for name in manifest["arrays"]["cost"])


@pytest.mark.parametrize(("language", "suffix"), [("csv", "csv"), ("json", "jsonl")])
def test_stop_files_are_read_as_shown(language, suffix, tmp_path):
    (block,) = blocks(DOCS / "data_format.md", language)
    file = tmp_path / f"stops.{suffix}"
    file.write_text(block.text)
    assert read_stops(file, 3) == [-1, 4, -1]


# --- the tools of this file -----------------------------------------------------------------------------------


def test_blocks_know_their_language_line_and_permission(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"text\n\n```python\na = 1\n```\n\n{SKIP}\n\n```python\n1 / 0\n```\n```\nplain\n```\n")
    first, second = blocks(page, "python")
    assert (first.text, first.line, first.above) == ("a = 1\n", 3, "text")
    assert second.above == SKIP
    assert "a = 1" not in prose(page)
    assert "text" in prose(page)


def test_a_failing_block_fails(tmp_path, registries, load_module, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        f"```python\nx = 1\n```\n\n{SKIP}\n```python\n1 / 0\n```\n\n```python\nassert x == 2\n```\n"
    )
    with pytest.raises(AssertionError):
        test_python_blocks_run(page, registries, load_module, monkeypatch, tmp_path)


# --- numbers that come from a command ----------------------------------------------------------------------------


def committed(name: str) -> list[dict]:
    return json.loads((ROOT / "results" / name).read_text())


def test_the_speeds_in_the_docs_are_the_committed_ones():
    rows = committed("bench-sim.json")
    (start,) = (row for row in rows if row["unit"] == "s")
    speeds, arms = ([row for row in rows if row["name"] == name] for name in ("highway-v0", "fetch-reach"))
    assert bench_table(arms) in (DOCS / "fetch_reach.md").read_text()
    page = (DOCS / "highway.md").read_text()
    assert bench_table(speeds) in page
    assert f"{start['value']:.2f} s after numba is imported" in page


def test_the_studies_of_learners_in_the_docs_are_the_committed_ones():
    page = (DOCS / "learners.md").read_text()
    assert budget_table(committed("budgets-point.json")) in page
    assert ladder_table(committed("ladder-point.json")) in page
    speeds = committed("bench-learn.json")
    assert bench_table(speeds) in page
    (ours,) = (row for row in speeds if row["name"] == "bcq-lagrangian" and row["unit"] == "updates/CPU-s")
    assert ours["config"]["GFLOP/update"] <= 0.7


def test_the_parity_in_the_docs_is_the_committed_one():
    rows = committed("parity-sim.json")
    strict, installed = (
        [row for row in rows if row["name"] == f"parity, {mode}"] for mode in (STRICTLY, INSTALLED)
    )
    episodes = sum(row["config"]["episodes"] for row in strict)
    page = (DOCS / "highway.md").read_text()
    assert f"drives {episodes} whole episodes" in page
    assert f"over {len(strict)} kinds of" in page
    assert f"all {sum(row['value'] for row in strict)} episodes are equal in every bit" in page
    assert f"{max(row['parity_max_abs'] for row in installed):.1e}" in page
    assert parity_failures(rows) == []
    arms = [row for row in rows if row["name"] == f"parity, {ARM}"]
    assert {row["config"]["case"] for row in arms} == {case.name for case in ARM_CASES}
    bitwise = sum(row["value"] for row in arms)
    assert f"all {bitwise} episodes are equal in every bit" in (DOCS / "fetch_reach.md").read_text()
    assert {row["config"]["case"] for row in strict} == {case.name for case in CASES}


PLACES = (
    "exact sums",
    "rise correlation",
    "risk correlation",
    "rise error",
    "time correlation",
    "last moments",
    "first step",
    "negative mass",
)
TRAINING = (
    "rise correlation",
    "risk correlation",
    "first step",
    "matched pairs",
    "calibration error",
    "quality",
)
MODELS = ("matched pairs", "held-out accuracy", "calibration error", "quality", "epochs", "seconds")


REFERENCES = {
    "highway.md": ("highway", "highway-open", "highway-disc"),
    "fetch_reach.md": ("fetch-reach",),
}


@pytest.mark.parametrize("page", REFERENCES)
def test_the_references_in_the_docs_are_the_committed_ones(page):
    for task in REFERENCES[page]:
        assert reference_table(committed(f"reference-{task}.json")).strip() in (DOCS / page).read_text()


@pytest.mark.parametrize("task", ["highway", "fetch-reach"])
def test_tasks_are_what_they_were_chosen_for(task):
    rows = committed(f"reference-{task}.json")
    assert [one.asked for one in criteria(rows) if not one.met] == []
    assert len(criteria(rows)) == 4
    assert {row["seed"] for row in rows if row["driver"] == "blind"} == {0, 1, 2}
    for line in criteria_lines(rows):
        assert f"- {line}\n" in (DOCS / f"{task.replace('-', '_')}.md").read_text()


def test_the_redistributors_in_the_docs_are_the_committed_ones():
    page = (DOCS / "redistributors.md").read_text()
    results = results_of(committed("redistributors-point.json"))
    assert markdown(results, PLACES).strip() in page
    assert markdown(results, MODELS).strip() in page
    training = results_of(committed("redistributors-training.json"))
    assert markdown(training, TRAINING).strip() in page
    assert bench_table(committed("bench-redistribute.json")) in page


def test_every_method_beats_uniform_on_point():
    """In both correlations, by its whole interval."""
    for result in results_of(committed("redistributors-point.json")):
        for name in ("rise_correlation", "risk_correlation"):
            lowest = result.mean(name) - (result.half_width[name] or 0.0)
            assert lowest > 0.0 or result.method == "uniform", (result.variant, name)


def test_the_runtime_in_the_docs_is_the_committed_one():
    rows = committed("bench-runtime.json")
    assert bench_table(rows) in (DOCS / "running_a_policy.md").read_text()
    assert {row["name"].split(",")[0] for row in rows} == set(METHODS)
    for row in rows:
        assert row["config"]["observations"] == 10_000
        assert row["parity_max_abs"] <= 1e-5
        assert row["differing"] <= 5
        assert row["value"] < 1.0  # milliseconds


def test_the_import_in_the_docs_is_the_committed_one():
    """Ten gigabytes, with a twentieth of that as memory."""
    rows = {row["name"]: row for row in committed("bench-import.json")}
    assert bench_table(list(rows.values())).strip() in (DOCS / "formats.md").read_text()
    assert rows["import: hdf5"]["config"]["gigabytes"] > 9.9
    for row in rows.values():
        assert row["config"]["heap_limit_mb"] == 512
        assert row["config"]["peak_rss_mb"] < 512


def test_the_kills_in_the_docs_are_the_committed_ones():
    rows = committed("bench-faults.json")
    assert bench_table(rows) in (DOCS / "faults.md").read_text()
    assert {(row["name"], row["config"]["killed"]) for row in rows} == set(itertools.product(WHAT, VICTIMS))
    assert fault_failures(rows) == []


def test_the_labeler_in_the_docs_is_the_committed_one():
    rows = {row["name"]: row for row in committed("bench-serve.json")}
    assert bench_table(list(rows.values())).strip() in (DOCS / "labeling.md").read_text()
    assert rows["serve: first paint"]["value"] < 1.0
    told = rows["serve: labels"]["config"]
    assert (told["labels"], told["lost"], told["doubled"]) == (10_000, 0, 0)


def test_the_shift_in_the_docs_is_the_committed_one():
    assert shift_table(committed("shift.json")) in (DOCS / "redistributors.md").read_text()


def test_the_page_of_results_is_made_from_the_committed_rows():
    rows = committed("paper.json")
    assert results_document(rows, other_rows(ROOT / "results")) == (DOCS / "results.md").read_text()
    assert tables_document(rows) == (DOCS / "results_tables.md").read_text()


def test_the_scaling_in_the_docs_is_the_committed_one():
    rows = committed("bench-scaling.json")
    assert bench_table(rows) in (DOCS / "scaling.md").read_text()
    value = {row["name"]: row["value"] for row in rows}
    for kind in ("local", "ray"):
        assert value[f"{kind}: overhead of 10 s tasks"] < 5  # percent
        assert value[f"{kind}: efficiency of two cores"] > 90

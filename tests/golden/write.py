"""What a change of the source must not change by accident: commands, names, the layout of artefacts, keys of the study.

    python tests/golden/write.py

writes the files beside this one anew, on purpose; the difference is to be read before it is committed. Numbers that
were computed are not among them: their last bits depend on the kind of processor.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))

import typer
from tiny_run import TINY, finish

import rci
from rci.cli.main import app
from rci.pipeline.config import load_config
from rci.pipeline.plan import plan
from rci.studies.paper.cells import cells, key_of
from rci.studies.paper.experiments import EXPERIMENTS
from rci.studies.paper.scales import SCALES

PUBLIC = (
    "rci",
    *(f"rci.{name}" for name in ("collection", "evaluation", "labeling", "learning", "redistribution")),
)
REGISTRIES = {
    "rci.redistribution": "REDISTRIBUTORS",
    "rci.learning": "LEARNERS",
    "rci.labeling": "NOISES",
    "rci.tasks": "TASKS",
    "rci.runtime": "METHODS",
}
# Attributes of what the functions return, which others rely on.
ATTRIBUTES = ("Episode", "Episodes", "Labels", "StepCosts", "Policy", "Scores")
OF_THE_MACHINE = {"versions"}  # in a manifest: names of what is installed


def help_tree(command: Any = None) -> dict[str, Any]:
    """The help of a command, its parameters and its subcommands, from the objects and not from the text they print."""
    command = command or typer.main.get_command(app)
    tree: dict[str, Any] = {"help": command.help, "parameters": [parameter(one) for one in command.params]}
    if getattr(command, "commands", None):
        tree["commands"] = {name: help_tree(one) for name, one in sorted(command.commands.items())}
    return tree


def parameter(one: Any) -> dict[str, Any]:
    """An option or an argument of a command."""
    default = one.default() if callable(one.default) else one.default
    return {
        "names": [*one.opts, *one.secondary_opts],
        "kind": one.param_type_name,
        "required": one.required,
        "default": default if isinstance(default, bool | int | float | str | None) else str(default),
        "help": getattr(one, "help", None),
    }


def names() -> dict[str, Any]:
    """The names of the Python interface, and of the methods that can be asked for."""
    modules = {name: importlib.import_module(name) for name in (*PUBLIC, "rci.runtime", *REGISTRIES)}
    public = {name: sorted(module.__all__) for name, module in modules.items() if hasattr(module, "__all__")}
    for registry, attribute in REGISTRIES.items():
        public[f"{registry}.{attribute}"] = sorted(getattr(modules[registry], attribute))
    for name in ATTRIBUTES:
        kind = getattr(rci, name)
        fields = getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ()))
        public[f"rci.{name}"] = sorted({*fields, *(one for one in dir(kind) if not one.startswith("_"))})
    return public


def run_layout(out: Path) -> dict[str, Any]:
    """The jobs of the tiny run and everything about what they wrote, but the numbers."""
    jobs = {
        job.name: {
            "stage": job.stage,
            "settings": job.settings,
            "seed": job.seed,
            "inputs": {name: str(path.relative_to(out)) for name, path in job.inputs.items()},
            "output": str(job.output.relative_to(out)),
            "needs": list(job.needs),
        }
        for job in plan(load_config("point", "quick", None, TINY), out)
    }
    folders = sorted(path.parent for path in out.rglob("manifest.json"))
    layouts: dict[str, list[str]] = {}
    for folder in folders:
        text = json.dumps(artefact_layout(folder, counts(out)))
        layouts.setdefault(text, []).append(str(folder.relative_to(out)))
    others = {path for path in out.rglob("*") if path.is_file() and path.parent not in folders}
    rows = json.loads((out / "results.json").read_text())
    return {
        "jobs": jobs,
        "artefacts": [{"folders": same, **json.loads(text)} for text, same in layouts.items()],
        "other files": sorted(str(path.relative_to(out)) for path in others),
        "columns of results.json": sorted({name for row in rows for name in row}),
        "names in report/summary.json": sorted(json.loads((out / "report" / "summary.json").read_text())),
    }


def artefact_layout(folder: Path, known: Mapping[int, str]) -> dict[str, Any]:
    """The kind of an artefact, the names in its manifest, and its arrays with their types and shapes."""
    manifest = json.loads((folder / "manifest.json").read_text())
    lengths = manifest["arrays"].get("lengths")
    known = {**counts(folder.parent, folder.name), **known} if lengths else known
    arrays = {
        name: " ".join([entry["dtype"], *(str(known.get(size, size)) for size in entry["shape"])])
        for name, entry in manifest["arrays"].items()
    }
    return {
        "kind": manifest["kind"],
        "format": manifest["format"],
        "manifest": outline({name: value for name, value in manifest.items() if name != "arrays"}),
        "arrays": arrays,
    }


def counts(out: Path, episodes: str = "episodes", labels: str = "labels") -> dict[int, str]:
    """What numbers of rows mean that depend on how long episodes came to be."""
    import numpy as np

    lengths = np.load(out / episodes / "lengths.npy")
    found = {int(lengths.sum()): "steps", int(lengths.sum()) + len(lengths): "steps+episodes"}
    if (out / labels).is_dir():
        stop = np.load(out / labels / "stop_index.npy")
        kept = int(np.where(stop >= 0, stop + 1, lengths).sum())
        found |= {kept: "kept-steps", kept + len(lengths): "kept-steps+episodes"}
    return found


def outline(value: Any) -> Any:
    """The names in nested JSON, without the values."""
    if isinstance(value, dict):
        return {
            name: "" if name in OF_THE_MACHINE else outline(inner) for name, inner in sorted(value.items())
        }
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [outline(value[0])]
    return ""


def study_keys() -> dict[str, dict[str, str]]:
    """The key of the first policy of every experiment, for each preset."""
    return {
        preset: {name: key_of(cells(one, scale)[0], scale) for name, one in EXPERIMENTS.items()}
        for preset, scale in SCALES.items()
    }


WITHOUT_A_RUN: dict[str, Callable[[], Any]] = {"help": help_tree, "names": names, "study": study_keys}


def as_text(value: Any) -> str:
    """A golden file."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all files anew."""
    for name, current in WITHOUT_A_RUN.items():
        (HERE / f"{name}.json").write_text(as_text(current()))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        finish(out)
        (HERE / "run.json").write_text(as_text(run_layout(out)))


if __name__ == "__main__":
    main()

"""RCI: safe policies from logs in which somebody only ever pressed STOP.

    episodes = rci.load("runs/demo/episodes")
    labels = rci.label(episodes, "point")
    costs = rci.redistribute(episodes, labels, method="rudder")
    policy = rci.learn(episodes, labels, costs, budget=0.05)
    scores = rci.evaluate(policy, "point")

Importing this package loads nothing heavy; each name is resolved when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rci import (
        collection,
        data,
        evaluation,
        labeling,
        learning,
        nets,
        redistribution,
        reporting,
        runtime,
        tasks,
    )
    from rci.collection import collect
    from rci.data.errors import RciError
    from rci.data.formats import (
        convert_dataset,
        import_d4rl,
        import_dataset,
        import_dsrl,
        import_logs,
        import_minari,
        import_omnisafe,
        read_d4rl,
        read_dsrl,
        read_logs,
        read_minari,
        read_omnisafe,
        write_dsrl,
        write_minari,
        write_parquet,
    )
    from rci.data.types import Episode, Episodes, Labels, Oracle, Policy, Scores, StepCosts
    from rci.evaluation import evaluate
    from rci.labeling import label
    from rci.learning import learn
    from rci.learning.fqe import judge
    from rci.learning.onnx import export_onnx
    from rci.learning.selection import select
    from rci.redistribution import redistribute

_MODULES = (
    "collection",
    "data",
    "evaluation",
    "labeling",
    "learning",
    "nets",
    "redistribution",
    "reporting",
    "runtime",
    "tasks",
)
_NAMES = {
    "collect": "rci.collection",
    "label": "rci.labeling",
    "redistribute": "rci.redistribution",
    "learn": "rci.learning",
    "judge": "rci.learning.fqe",
    "export_onnx": "rci.learning.onnx",
    "select": "rci.learning.selection",
    "evaluate": "rci.evaluation",
    "RciError": "rci.data.errors",
    **dict.fromkeys(
        (
            *(
                f"{verb}_{name}"
                for verb in ("read", "import")
                for name in ("d4rl", "dsrl", "logs", "minari", "omnisafe")
            ),
            "import_dataset",
            "convert_dataset",
            "write_dsrl",
            "write_minari",
            "write_parquet",
        ),
        "rci.data.formats",
    ),
    **dict.fromkeys(
        ("Episode", "Episodes", "Labels", "Oracle", "Policy", "Scores", "StepCosts"), "rci.data.types"
    ),
}

__all__ = [
    "Episode",
    "Episodes",
    "Labels",
    "Oracle",
    "Policy",
    "RciError",
    "Scores",
    "StepCosts",
    "__version__",
    "collect",
    "collection",
    "convert_dataset",
    "data",
    "evaluate",
    "evaluation",
    "export_onnx",
    "import_d4rl",
    "import_dataset",
    "import_dsrl",
    "import_logs",
    "import_minari",
    "import_omnisafe",
    "judge",
    "label",
    "labeling",
    "learn",
    "learning",
    "load",
    "nets",
    "read_d4rl",
    "read_dsrl",
    "read_logs",
    "read_minari",
    "read_omnisafe",
    "redistribute",
    "redistribution",
    "reporting",
    "runtime",
    "save",
    "select",
    "tasks",
    "write_dsrl",
    "write_minari",
    "write_parquet",
]


def load(path: Any, verify: bool = True) -> Any:
    """Read any artefact folder: demonstrators, episodes, oracle, labels, costs, behaviour, policy, monitor, scores."""
    from rci.data.models import Policy
    from rci.data.record import fitting
    from rci.data.store import read

    record = read(path, verify=verify)
    if isinstance(record, Policy):
        from rci.learning import restore_policy

        with fitting(str(path)):
            return restore_policy(record)
    return record


def save(record: Any, path: Any) -> None:
    """Write episodes, labels, costs, a policy or scores as an artefact folder that `load` reads."""
    from rci.data.store import write

    write(path, record)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"rci.{name}")
    raise AttributeError(f"module 'rci' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

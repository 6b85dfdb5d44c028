"""RCI: safe policies from logs in which somebody only ever pressed STOP.

    episodes = rci.load("runs/demo/episodes")
    labels = rci.label(episodes, "point")
    costs = rci.redistribute(episodes, labels, method="rudder")
    policy = rci.learn(episodes, labels, costs, budget=0.05)
    scores = rci.evaluate(policy, "point")

Importing this package loads nothing heavy; each name is resolved when it is first used.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _names() -> dict[str, str]:
    """Where each public name comes from: written once, in the stub that type checkers and editors read too."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    return {
        name.name: f"rci.{name.name}" if node.module == "rci" else str(node.module)
        for node in imports
        for name in node.names
    }


_NAMES = _names()
__all__ = ["__version__", "load", "save", *_NAMES]


def load(path: Any, verify: bool = True) -> Any:
    """Read any artefact folder: demonstrators, episodes, oracle, labels, costs, behaviour, policy, monitor, scores."""
    from rci.data.artefacts.models import Policy
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
    if name not in _NAMES:
        raise AttributeError(f"module 'rci' has no attribute {name!r}")
    module = importlib.import_module(_NAMES[name])
    return module if _NAMES[name] == f"rci.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)

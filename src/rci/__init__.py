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
from typing import Any

__version__ = "0.1.0"

# Where every name comes from. A module that is named under itself is given out whole.
_NAMES = {
    name: module
    for module, names in {
        "rci.collection": "collection collect",
        "rci.data": "data",
        "rci.data.errors": "RciError",
        "rci.data.types": "Episode Episodes Labels Oracle Policy Scores StepCosts",
        "rci.formats": "read_d4rl read_dsrl read_logs read_minari read_omnisafe import_d4rl import_dsrl "
        "import_logs import_minari import_omnisafe import_dataset convert_dataset "
        "write_dsrl write_minari write_parquet",
        "rci.evaluation": "evaluation evaluate",
        "rci.labeling": "labeling label",
        "rci.learning": "learning learn",
        "rci.learning.judging.fqe": "judge",
        "rci.deploy.onnx": "export_onnx",
        "rci.learning.judging.selection": "select",
        "rci.nets": "nets",
        "rci.redistribution": "redistribution redistribute",
        "rci.reporting": "reporting",
        "rci.runtime": "runtime",
        "rci.tasks": "tasks",
    }.items()
    for name in names.split()
}
__all__ = ["__version__", "load", "save", *_NAMES]


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
    if name not in _NAMES:
        raise AttributeError(f"module 'rci' has no attribute {name!r}")
    module = importlib.import_module(_NAMES[name])
    return module if _NAMES[name] == f"rci.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)

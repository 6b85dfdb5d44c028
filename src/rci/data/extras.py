"""Packages that not everybody installs, by the extra of this one that brings them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from rci.data.errors import RciError

EXTRAS: dict[str, tuple[str, ...]] = {  # the modules that are looked for
    "fetch": ("mujoco", "gymnasium_robotics"),
    "ray": ("ray",),
    "store": ("fsspec",),
    "onnx": ("onnx",),
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
    "tensorboard": ("tensorboardX",),
}


def require_extra(extra: str, what: str) -> None:
    """Refuse to begin what needs packages that are not installed: at the start, and not after minutes of work."""
    require_modules(EXTRAS[extra], what)


def require_modules(modules: Iterable[str], what: str) -> None:
    """The same for some modules of any extra; a package's name may stand for its module."""
    names = [name.replace("-", "_") for name in modules]
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        extras = sorted({extra for extra, brought in EXTRAS.items() if set(brought) & set(missing)})
        are = "is" if len(missing) == 1 else "are"
        raise RciError(
            f"{what} needs {' and '.join(missing)}, which {are} not installed: pip install 'rci[{','.join(extras)}]'."
        )

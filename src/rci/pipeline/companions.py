"""What is kept beside episodes: the truth about them, their labels, who drove when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rci.data import store
from rci.data.errors import RciError


def oracle_of(episodes: Path) -> Path:
    """Where the truth about collected episodes is kept: beside them."""
    return episodes.resolve().with_name(f"{episodes.resolve().name}-oracle")


def takeovers_of(episodes: Path) -> Path:
    """Where it is kept who drove when in episodes with a person: beside them."""
    return episodes.resolve().with_name(f"{episodes.resolve().name}-takeovers")


def labels_of(episodes: Path) -> Path:
    """Where the labels of imported or divided episodes are kept: beside them."""
    return episodes.with_name(f"{episodes.name}-labels")


BESIDE: dict[str, Callable[[Path], Path]] = {  # what comes with the output of a stage
    "collect": oracle_of,
    "collect-takeovers": takeovers_of,
    "import": labels_of,
    "part": labels_of,
}


def belongs(companion: Path, episodes_hash: str) -> bool:
    """Whether what is kept beside episodes is there and theirs."""
    try:
        meta = store.read_manifest(companion)["meta"]
    except RciError:
        return False
    return bool(meta.get("episodes_hash") == episodes_hash)

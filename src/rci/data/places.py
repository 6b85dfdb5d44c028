"""Files in folders that somebody else may have made."""

from __future__ import annotations

from pathlib import Path

from rci.data.errors import RciError


def own_file(folder: Path, name: str) -> Path:
    """The path of a file in `folder`; one that is a link to somewhere outside of it is refused.

    The folder itself may be a link: that is the choice of whoever named it.
    """
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise RciError(
            f"{path} is a link that leads out of {folder}; put the file itself there if you trust it."
        )
    return path

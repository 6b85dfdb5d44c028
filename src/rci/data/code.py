"""The code that results depend on, as one digest."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

# What results depend on besides settings and inputs. Formats, pages, the labeler and commands are left out.
CODE = (
    "data",
    "nets",
    "tasks",
    "collection",
    "labeling/noise.py",
    "labeling/rules.py",
    "redistribution",
    "learning",
    "evaluation",
    "pipeline/jobs.py",
)


@cache
def code_digest() -> str:
    """sha256 of the source files that results depend on."""
    root = Path(__file__).parent.parent
    files = [
        file
        for part in CODE
        for file in sorted([root / part, *(root / part).rglob("*.py")])
        if file.is_file()
    ]
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()

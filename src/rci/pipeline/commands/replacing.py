"""What stands where a command wants to write: made with the same settings, or with others that must not be lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.data.store import check_place, read_manifest
from rci.pipeline.jobs import Job

KINDS = {  # what stages make, as far as commands of one stage run them
    "demonstrators": "demonstrators",
    "collect": "episodes",
    "label": "labels",
    "behaviour": "behaviour",
    "redistribute": "costs",
    "combine": "costs",
    "transfer": "costs",
    "learn": "policy",
    "limit": "policy",
    "evaluate": "scores",
}
SHOWN = 4  # settings that differ


def refuse_replacing(jobs: Iterable[Job]) -> None:
    """Refuse to begin where an output would replace one that was made with other settings or another seed.

    One made with the same settings is replaced where its inputs or the code have changed, and else left as it is.
    """
    for job in jobs:
        check_place(job.output, KINDS.get(job.stage))
        refuse_other_settings(job.output, job.settings, job.seed)


def refuse_other_settings(output: Path, settings: Mapping[str, Any], seed: int | None) -> None:
    """Refuse a place where an artefact stands that was made with other settings or another seed."""
    try:
        made = read_manifest(output)
    except RciError:  # nothing, or nothing that anybody can read: writing it says what is wrong
        return
    standing = {**made["provenance"].get("config", {}), "seed": made["provenance"].get("seed")}
    wanted = {**json.loads(json.dumps(settings)), "seed": seed}
    differing = [name for name in {**standing, **wanted} if standing.get(name) != wanted.get(name)]
    if differing:
        listed = [f"{name} {_word(standing, name)}, now {_word(wanted, name)}" for name in differing[:SHOWN]]
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise RciError(
            f"{output} holds {made['kind']!r} made with other settings ({'; '.join(listed)}{more}). Write to another "
            "place, or replace it with --overwrite."
        )


def _word(settings: Mapping[str, Any], name: str) -> str:
    """A setting as text, short enough for a sentence."""
    if settings.get(name) is None:
        return "not set"
    text = str(settings[name])
    return text if len(text) <= 40 else f"{text[:37]}..."

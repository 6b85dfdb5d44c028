"""The members of an ensemble as jobs of their own: they know nothing of each other, so they are fitted side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rci.pipeline.jobs import Job


def plan_members(
    method: str, options: dict[str, Any], seed: int, inputs: dict[str, Path], out: Path
) -> list[Job]:
    """One job per member, into OUT-members, and the one that joins them into what a single process would write."""
    from rci.redistribution import parse_options
    from rci.redistribution.ensemble import member_seed

    count = parse_options(method, options).ensemble.members
    single = {name: value for name, value in options.items() if name not in ("members", "pessimism")}
    folder = out.with_name(f"{out.name}-members")
    settings = {"method": method, **single}
    members = [
        Job(f"member-{m}", "redistribute", settings, member_seed(seed, m), inputs, folder / str(m))
        for m in range(count)
    ]
    joined = {f"member{m}": job.output for m, job in enumerate(members)}
    needs = tuple(job.name for job in members)
    return [*members, Job("redistribute", "combine", {"method": method, **options}, seed, joined, out, needs)]

"""The jobs of `rci learn`, and what a user should know of trainings that went through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rci.data.risk.budgets import in_words
from rci.data.store import read_manifest
from rci.pipeline.jobs import Job


def training_jobs(
    settings: dict[str, Any], budgets: Sequence[str], seed: int, inputs: dict[str, Path], out: Path
) -> dict[Path, Job]:
    """The jobs that train a policy for each budget, by where they write; in OUT itself if there is but one.

    One training serves all budgets where the learner allows it. It is then the policy without a budget, OUT/inf, and
    comes first, whether it was asked for or not.
    """
    from rci.learning import LEARNERS

    if len(budgets) == 1:
        return {out: Job("learn", "learn", {**settings, "budget": budgets[0]}, seed, inputs, out)}
    if LEARNERS[settings["method"]].settle is None:
        return {
            out / each: Job(
                f"learn-{each}",
                "learn",
                {**settings, "budget": each},
                seed,
                inputs,
                out / each,
                title=f"learn, {in_words(each)}",
            )
            for each in budgets
        }
    whole = out / "inf"
    jobs = {whole: Job("learn", "learn", {**settings, "budget": "inf"}, seed, inputs, whole)}
    for each in budgets:
        limit = Job(
            f"limit-{each}",
            "limit",
            {"budget": each},
            seed,
            {"policy": whole},
            out / each,
            title=f"the threshold for {in_words(each)}",
        )
        jobs.setdefault(out / each, limit)
    return jobs


def cut_jobs(episodes: Path, takeovers: Path, out: Path) -> list[Job]:
    """The jobs that cut runs at takeovers: OUT-episodes of the machine, their labels in OUT, and OUT-human."""
    outputs = {
        "machine": out.with_name(f"{out.name}-episodes"),
        "human": out.with_name(f"{out.name}-human"),
        "labels": out,
    }
    inputs = {"episodes": episodes, "takeovers": takeovers}
    return [Job(f"cut-{part}", "cut", {"part": part}, 0, inputs, place) for part, place in outputs.items()]


def training_remarks(policies: Sequence[Path], behaviour: Path | None) -> list[str]:
    """Sentences about trained policies and the behaviour model that proposes to them; none if all is well."""
    from rci.learning.proposals.reach import describe_reach

    remarks = [say(_info(policy)) for policy in policies for say in (not_kept, worse_than_logs)]
    if behaviour is not None:
        remarks.append(describe_reach(_info(behaviour).get("reach", {})))
    return [remark for remark in remarks if remark]


def all_kept(policies: Sequence[Path]) -> bool:
    """Whether each policy is expected to keep its budget, as far as anything is expected of it."""
    return all(_info(policy).get("kept", True) for policy in policies)


def not_kept(info: dict[str, Any]) -> str:
    """A sentence about a policy that is not expected to keep its budget."""
    if info.get("kept", True):
        return ""
    bound = info["violation_bound"]
    lowest = bound.items() if isinstance(bound, dict) else [("", bound)]
    listed = ", ".join(f"{value:.1%}{f' for {name}' if name else ''}" for name, value in lowest)
    return (
        f"no threshold is expected to keep the budget {info['budget']}: the lowest bound is {listed}, and the policy "
        "has that threshold. Ask for more, or record more safe episodes."
    )


def worse_than_logs(info: dict[str, Any]) -> str:
    """A sentence about a policy that is expected to be stopped more often than what recorded the logs."""
    expected, logged = info.get("expected_violation"), info.get("logged_violation")
    if expected is None or logged is None:
        return ""
    pairs = (
        [(f" for {name}", expected[name], logged[name]) for name in expected]
        if isinstance(expected, dict)
        else [("", expected, logged)]
    )
    worse = [
        f"{own:.1%}{name} where the logs were stopped in {theirs:.1%}"
        for name, own, theirs in pairs
        if own > theirs
    ]
    return f"the policy is worse than the logs: stops are expected in {', '.join(worse)}." if worse else ""


def _info(folder: Path) -> dict[str, Any]:
    info: dict[str, Any] = read_manifest(folder)["meta"]["info"]
    return info

"""What logs say of several policies, as an artefact: by which episodes, and one estimate for each policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rci.data.record import Array, Record
from rci.data.risk.estimates import PolicyEstimate


@dataclass(frozen=True, eq=False)
class Estimates(Record):
    """Estimates of policies by their names. `judged_on`: the part of the runs that their trials begin as."""

    kind: ClassVar[str] = "estimates"
    stored: ClassVar[tuple[str, ...]] = ()
    policies: Mapping[str, PolicyEstimate]
    judged_on: str

    def __getitem__(self, name: str) -> PolicyEstimate:
        return self.policies[name]

    def __repr__(self) -> str:
        return f"Estimates({len(self.policies)} policies on the {self.judged_on} runs)"

    def meta(self) -> dict[str, Any]:
        return {
            "judged_on": self.judged_on,
            "policies": {name: one.as_table() for name, one in self.policies.items()},
        }

    @classmethod
    def restore(cls, arrays: dict[str, Array], meta: dict[str, Any]) -> Estimates:
        policies = {name: PolicyEstimate.from_table(table) for name, table in meta["policies"].items()}
        return cls(policies, str(meta["judged_on"]))

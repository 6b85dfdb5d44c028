"""What logs say of a policy before it drives: how often it would be stopped, how sure that is, and a verdict in words.

Several kinds of danger count as one here: a stop is a stop, whatever for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rci.data.errors import RciError
from rci.data.risk.budgets import Budget, parse_budget

Word = Literal["deploy under a monitor", "do not deploy", "the logs cannot say"]
DEPLOY: Word = "deploy under a monitor"
REFUSE: Word = "do not deploy"
UNSURE: Word = "the logs cannot say"
POOR_SUPPORT = 0.5  # share of steps outside of the data from which on no policy is deployed


class Interval(NamedTuple):
    """A number, and what it lies between."""

    estimate: float
    low: float
    high: float


class Support(NamedTuple):
    """How much of what the policy does the logs have seen; shares of its steps."""

    outside: float  # the action or the state lies outside of the data
    actions_outside: float  # nothing like the action was recorded in states like this
    states_outside: float  # nothing like the state was recorded
    effective_episodes: float  # of the logs, once they are weighed by how the policy would have acted


class Verdict(NamedTuple):
    """What to do with a policy under a budget, why, and what would change it."""

    word: Word
    reasons: tuple[str, ...]
    remedies: tuple[str, ...]


@dataclass(frozen=True)
class PolicyEstimate:
    """What logs say of one policy. Chances are of an episode, and lie between 0 and 1."""

    stop: Interval  # the chance that an episode is stopped, all methods together
    earned: Interval  # the mean return of an episode until its stop or its end
    methods: Mapping[str, Interval]  # the chance of a stop by each method alone
    support: Support
    logged_stop: Interval  # what the logs themselves show
    logged_earned: Interval
    episodes: int  # of the logs
    level: float  # how often the intervals hold the truth, and each of the two bounds that a verdict rests on
    at_least: float  # bounds of the chance of a stop, each for itself; they lie within the interval
    at_most: float

    def __post_init__(self) -> None:
        for name, found in {"stop": self.stop, "logged_stop": self.logged_stop, **self.methods}.items():
            if not 0 <= found.low <= found.estimate <= found.high <= 1:
                raise RciError(
                    f"{name} must be a chance between the ends of its interval, all from 0 to 1, got {found}."
                )

        if not 0 <= self.at_least <= self.stop.estimate <= self.at_most <= 1:
            raise RciError(
                "at_least and at_most must be chances on either side of the estimate, "
                f"{self.stop.estimate:.3g}, got {self.at_least} and {self.at_most}."
            )

    @property
    def worse_than_logs(self) -> bool:
        """Whether the policy is expected to be stopped more often than what recorded the logs."""
        return self.stop.estimate > self.logged_stop.estimate

    def verdict(self, budget: Budget) -> Verdict:
        """Whether to deploy the policy where a share `budget` of the episodes may be stopped."""
        limit = chance_of(budget)
        return Verdict(self._word(limit), self._reasons(limit), self._remedies(limit))

    def _word(self, limit: float) -> Word:
        if self.at_least > limit:
            return REFUSE
        if self.at_most <= limit and self.support.outside < POOR_SUPPORT:
            return DEPLOY
        return UNSURE

    def _reasons(self, limit: float) -> tuple[str, ...]:
        over = self.at_least > limit
        bound = f"at least {self.at_least:.1%}" if over else f"at most {self.at_most:.1%}"
        reasons = [
            f"the logs were stopped in {self.logged_stop.estimate:.0%} of {self.episodes} episodes",
            f"the policy is estimated to be stopped in {self.stop.estimate:.1%}, between {self.stop.low:.1%} and "
            f"{self.stop.high:.1%}",
            f"with {self.level:.0%} confidence that is {bound}, where {limit:.1%} are allowed",
            f"it leaves the data in {self.support.outside:.0%} of its steps",
        ]
        if self.worse_than_logs:
            reasons.append("it is worse than the logs")
        return tuple(reasons)

    def _remedies(self, limit: float) -> tuple[str, ...]:
        word = self._word(limit)
        if word == DEPLOY:
            return ()
        if word == REFUSE:
            return ("a policy for a smaller budget, or a larger budget, would be judged otherwise",)
        remedies = [
            f"{3 * self.episodes} more episodes of this kind would about halve what comes from their number"
        ]
        if self.support.outside >= POOR_SUPPORT / 2:
            remedies.append(
                "episodes recorded where the policy leaves the data, or a policy that stays closer to the logs"
            )
        if self.stop.estimate > limit / 2:
            remedies.append("a policy for a smaller budget")
        return tuple(remedies)

    def as_table(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "stop": self.stop._asdict(),
            "earned": self.earned._asdict(),
            "methods": {name: found._asdict() for name, found in self.methods.items()},
            "support": self.support._asdict(),
            "logged_stop": self.logged_stop._asdict(),
            "logged_earned": self.logged_earned._asdict(),
            "episodes": self.episodes,
            "level": self.level,
            "at_least": self.at_least,
            "at_most": self.at_most,
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> PolicyEstimate:
        """The reverse of `as_table`."""
        intervals = ("stop", "earned", "logged_stop", "logged_earned")
        return cls(
            **{name: Interval(**table[name]) for name in intervals},
            methods={name: Interval(**each) for name, each in table["methods"].items()},
            support=Support(**table["support"]),
            episodes=int(table["episodes"]),
            level=float(table["level"]),
            # Verdicts of earlier versions rested on the ends of the interval.
            at_least=float(table.get("at_least", table["stop"]["low"])),
            at_most=float(table.get("at_most", table["stop"]["high"])),
        )


def chance_of(budget: Budget) -> float:
    """A budget as the chance of a stop that it allows; by channel or as a percentile it is none."""
    limit = parse_budget(budget)
    if isinstance(limit, str):
        raise RciError(
            f"an estimate is held against the chance of a stop, a number such as 0.05, but the budget is {limit!r}."
        )
    return limit

"""What a user allows: a number, a percentile, or one of them for each channel of cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rci.data.errors import RciError, unknown_name

Limit = float | str  # 0.05, inf, or a percentile such as "P30"
Budget = (
    Limit | Mapping[str, Limit]
)  # {"proximity": 0.05, "road": "P20"}, also as the text "proximity=0.05,road=P20"


def parse_budget(budget: Budget) -> Limit:
    """A budget as the user wrote it: a number >= 0, `inf`, P0 to P100, or one of these for each channel.

    The latter become one text, channels in the order of the alphabet. Whether there are such channels is not known
    here; `limits` checks it.
    """
    if isinstance(budget, Mapping):
        pairs = list(budget.items())
    elif isinstance(budget, str) and "=" in budget:
        pairs = [_pair(part, budget) for part in budget.split(",")]
    else:
        return _parse_limit(budget)
    told: dict[str, str] = {}
    for name, limit in pairs:
        if not isinstance(name, str) or not name or set(name) & set("=,"):
            raise RciError(
                f"a budget by channel needs the name of a channel without = or comma, got {name!r}."
            )
        if name in told:
            raise RciError(f"the budget {budget!r} names the channel {name!r} twice.")
        told[name] = str(_parse_limit(limit))
    if not told:
        raise RciError("a budget by channel must name every channel; it names none.")
    return ",".join(f"{name}={told[name]}" for name in sorted(told))


def limits(budget: Budget, channels: Sequence[str]) -> tuple[Limit, ...]:
    """The budget of each channel, in their order; of the only one where they have no names."""
    budget = parse_budget(budget)
    if not (isinstance(budget, str) and "=" in budget):
        return (budget,) * max(1, len(channels))
    if not channels:
        raise RciError(
            f"the budget {budget!r} is by channel, but these costs have no channels; write one number or percentile."
        )
    told = dict(_pair(part, budget) for part in budget.split(","))
    for name in told:
        if name not in channels:
            raise unknown_name("channel in the budget", name, channels)
    missing = [name for name in channels if name not in told]
    if missing:
        raise RciError(
            f"the budget {budget!r} says nothing about {', '.join(missing)}; every channel needs one, and inf is none."
        )
    return tuple(_parse_limit(told[name]) for name in channels)


def refuse_percentiles(whose: str, own: Sequence[Limit]) -> None:
    """A percentile of step costs cannot be held against the chance of a stop. whose: a learner, or a policy of one."""
    for limit in own:
        if isinstance(limit, str):
            raise RciError(
                f"the budget {limit} is a percentile of step costs, but {whose} keeps the chance of a stop below a "
                "threshold; give the violation probability that is allowed, such as 0.05."
            )


def split_budgets(text: str) -> list[str]:
    """ "0.01,0.05" -> each of them as `parse_budget` writes it. A budget by channel is one budget, commas and all."""
    parts = [text] if "=" in text else [part.strip() for part in text.split(",")]
    told = [str(parse_budget(part)) for part in parts]
    for budget in told:
        if told.count(budget) > 1:
            raise RciError(f"the budget {budget} is given twice: {text}.")
    return told


def _pair(part: str, budget: str) -> tuple[str, str]:
    name, equals, limit = part.partition("=")
    if not equals:
        raise RciError(f"a budget by channel is written proximity=0.05,road=P20, not {budget!r}.")
    return name.strip(), limit.strip()


def _parse_limit(text: Limit) -> Limit:
    if isinstance(text, str) and text[:1] in "Pp" and text[1:].replace(".", "", 1).isdigit():
        if not 0 <= float(text[1:]) <= 100:
            raise RciError(f"a percentile budget must be P0 to P100, got {text!r}.")
        return "P" + text[1:]
    try:
        if isinstance(text, bool):
            raise TypeError
        number = float(text)
    except (ValueError, TypeError):
        raise RciError(
            f"a budget is a number such as 0.05, a percentile such as P30, or one of them by channel, not {text!r}."
        ) from None
    if math.isnan(number) or number < 0:
        raise RciError(f"a budget is an allowed cost, so it cannot be {text!r}; the smallest is 0.")
    if 1 < number < math.inf:
        raise RciError(
            f"an episode costs at most 1, so a budget of {text!r} would allow everything; for 5% write 0.05, for no "
            "budget write inf."
        )
    return number

"""What a user allows: a number such as 0.05, also written 5%, a percentile, or one of them for each channel of cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

from rci.data.errors import RciError, unknown_name

Limit = float | str  # 0.05, "5%", inf, or a percentile such as "P30"
Budget = (
    Limit | Mapping[str, Limit]
)  # {"proximity": 0.05, "road": "P20"}, also as the text "proximity=0.05,road=P20"


def parse_budget(budget: Budget) -> Limit:
    """A budget as the user wrote it: a number from 0 to 1, 0% to 100%, `inf`, P0 to P100, or one of these by channel.

    5% becomes 0.05, so that both give the same artefacts.

    The latter become one text, channels in the order of the alphabet. Whether there are such channels is not known
    here; `limits` checks it.
    """
    if isinstance(budget, Mapping):
        pairs = list(budget.items())
    elif isinstance(budget, str) and "=" in budget:
        pairs = [_pair(part, budget) for part in budget.split(",")]
    else:
        return _parse_limit(budget)
    by_channel: dict[str, str] = {}
    for name, limit in pairs:
        if not isinstance(name, str) or not name or set(name) & set("=,"):
            raise RciError(
                f"a budget by channel needs the name of a channel without = or comma, got {name!r}."
            )
        if name in by_channel:
            raise RciError(f"the budget {budget!r} names the channel {name!r} twice.")
        by_channel[name] = str(_parse_limit(limit))
    if not by_channel:
        raise RciError("a budget by channel must name every channel; it names none.")
    return ",".join(f"{name}={by_channel[name]}" for name in sorted(by_channel))


def in_words(budget: Budget) -> str:
    """A budget as people say it: 5%, P30, no budget, or one of these by channel."""
    budget = parse_budget(budget)
    if isinstance(budget, str) and "=" in budget:
        pairs = (_pair(part, budget) for part in budget.split(","))
        return ", ".join(f"{name} {in_words(limit)}" for name, limit in pairs)
    if isinstance(budget, str):
        return budget
    return "no budget" if math.isinf(budget) else f"{100 * budget:.6g}%"


def limits(budget: Budget, channels: Sequence[str]) -> tuple[Limit, ...]:
    """The budget of each channel, in their order; of the only one where they have no names."""
    budget = parse_budget(budget)
    if not (isinstance(budget, str) and "=" in budget):
        return (budget,) * max(1, len(channels))
    if not channels:
        raise RciError(
            f"the budget {budget!r} is by channel, but these costs have no channels; write one number or percentile."
        )
    by_channel = dict(_pair(part, budget) for part in budget.split(","))
    for name in by_channel:
        if name not in channels:
            raise unknown_name("channel in the budget", name, channels)
    missing = [name for name in channels if name not in by_channel]
    if missing:
        raise RciError(
            f"the budget {budget!r} says nothing about {', '.join(missing)}; every channel needs one, and inf is none."
        )
    return tuple(_parse_limit(by_channel[name]) for name in channels)


def refuse_percentiles(whose: str, allowed: Sequence[Limit]) -> None:
    """A percentile of step costs cannot be held against the chance of a stop. whose: a learner, or a policy of one."""
    for limit in allowed:
        if isinstance(limit, str):
            raise RciError(
                f"the budget {limit} is a percentile of step costs, but {whose} keeps the chance of a stop below a "
                "threshold; give the violation probability that is allowed, such as 0.05."
            )


def split_budgets(text: str) -> list[str]:
    """ "0.01,0.05" -> each of them as `parse_budget` writes it. A budget by channel is one budget, commas and all."""
    parts = [text] if "=" in text else [part.strip() for part in text.split(",")]
    budgets = [str(parse_budget(part)) for part in parts]
    for budget in budgets:
        if budgets.count(budget) > 1:
            raise RciError(f"the budget {budget} is given twice: {text}.")
    return budgets


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
        number = _share(text)
    if math.isnan(number) or number < 0:
        raise RciError(f"a budget is an allowed cost, so it cannot be {text!r}; the smallest is 0.")
    if 1 < number < math.inf:
        raise RciError(
            f"an episode costs at most 1, so a budget of {text!r} would allow everything; for 5% write 5% or 0.05, for "
            "no budget write inf."
        )
    return number


def _share(text: Limit) -> float:
    """ "5%" -> 0.05, the very number: a division of floats would be another one now and then."""
    try:
        written = str(text).strip()
        if not written.endswith("%"):
            raise InvalidOperation
        share = Decimal(written[:-1].strip()).scaleb(-2)
        if not share.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise RciError(
            f"a budget is a number such as 0.05, a share such as 5%, a percentile such as P30, or one of them by "
            f"channel, not {text!r}."
        ) from None
    return float(share)

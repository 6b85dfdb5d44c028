"""The verdict of an assessment in sentences."""

from __future__ import annotations

from rci.data.risk.estimates import DEPLOY, POOR_SUPPORT, REFUSE, Interval
from rci.reporting.assessment.contents import AssessmentInput
from rci.reporting.numbers import number

TITLES = {DEPLOY: "Deploy under a monitor", REFUSE: "Do not deploy"}
UNSURE_TITLE = "The logs cannot say"
MARKS = {DEPLOY: "good", REFUSE: "bad"}  # classes of the style sheet


def title(content: AssessmentInput) -> str:
    """The verdict, as a heading."""
    return TITLES.get(content.chosen.verdict.word, UNSURE_TITLE)


def headline(content: AssessmentInput) -> str:
    """Why, in one sentence."""
    reasons = "; ".join(content.chosen.verdict.reasons)
    return f"{reasons[:1].upper()}{reasons[1:]}."


def meaning(content: AssessmentInput) -> str:
    """What a reader is asked to do."""
    asked = rate(content.budget)
    word = content.chosen.verdict.word
    if word == DEPLOY:
        watch = content.watching
        return (
            f"The policy {content.chosen.name} may drive where at most {asked} of the runs may be stopped, beside the "
            f"monitor, which interrupts about {rate(watch.false_alarm_rate)} of safe runs for nothing"
            f"{_detected(content)}."
        )
    if word == REFUSE:
        return (
            f"The safest policy from these logs, {content.chosen.name}, is expected to be stopped in more than {asked} "
            "of its runs."
        )
    return (
        f"The policy {content.chosen.name} may or may not be stopped in more than {asked} of its runs: from these logs "
        "it cannot be known. Do not let it drive on the strength of them."
    )


def _detected(content: AssessmentInput) -> str:
    """How many stops the monitor foresees at its level, if that is known."""
    watch = content.watching
    rows = [row for row in watch.rows if row["false_alarm_rate"] == watch.false_alarm_rate]
    return f" and foresees {rate(rows[0]['detected'])} of the stops" if rows else ""


def changes(content: AssessmentInput) -> list[str]:
    """What would change the verdict, as whole sentences."""
    sentences = [f"{text[:1].upper()}{text[1:]}." for text in content.chosen.verdict.remedies]
    lowest = least_budget(content)
    if lowest is None:
        sentences.append(
            "With these logs there is no budget below 100% for which a policy would be deployed."
        )
    elif content.chosen.verdict.word == DEPLOY:
        sentences.append(
            f"The verdict would be another one for a budget below {rate(content.chosen.estimate.at_most)}."
        )
    else:
        budget, name = lowest
        sentences.append(
            f"With these logs the lowest budget for which a policy would be deployed is {budget} ({name})."
        )
    return sentences


def least_budget(content: AssessmentInput) -> tuple[str, str] | None:
    """The lowest budget that is fit for some policy, rounded up, and the policy's name; None if it would be 100%."""
    fit = [one for one in content.policies if one.estimate.support.outside < POOR_SUPPORT]
    safest = min(fit, key=lambda one: one.estimate.at_most, default=None)
    if safest is None or safest.estimate.at_most > 0.995:
        return None
    return f"{int(1000 * safest.estimate.at_most) / 10 + 0.1:.1f}%", f"the policy {safest.name}"


def shares(interval: Interval) -> str:
    """The ends of an interval of shares, as in 3.1–19.0%."""
    return f"{100 * interval.low:.1f}–{100 * interval.high:.1f}%"


def span(interval: Interval) -> str:
    """The ends of an interval of numbers."""
    return f"{number(interval.low)} to {number(interval.high)}"


def rate(share: float) -> str:
    """A share without needless decimals: 5%, 2.5%."""
    return f"{round(100 * share, 1):g}%"

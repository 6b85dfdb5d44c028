"""What each experiment asks."""

from __future__ import annotations

# name: title and question, in the order in which experiments are shown
QUESTIONS = {
    "highway": (
        "The paper's system on the highway",
        "How often do policies on the highway come too close, and what do they earn?",
    ),
    "fetch-reach": (
        "The paper's system on the arm",
        "How often does the arm enter the hazard, and how well does it reach?",
    ),
    "readings": (
        "The paper's task, read in other ways",
        "Does the claim hold where leaving the road costs nothing, or where danger is a disc of 20 m?",
    ),
    "composition": ("Dataset composition", "Does it matter who recorded the data?"),
    "label-noise": (
        "Label noise",
        "What if stops come too early or too late, or every fifth label is wrong?",
    ),
    "controls": (
        "Was the baseline held back?",
        "Does the paper's learner do better with sparse costs over several steps, or with a fixed price?",
    ),
    "best-learner": (
        "Redistribution under the best learner, on the highway",
        "Which step costs does the learner `feasible` need for the fewest violations at the same return?",
    ),
    "best-learner-arm": (
        "Redistribution under the best learner, on the arm",
        "Which step costs does the learner `feasible` need for the fewest violations at the same return?",
    ),
    "when-it-pays": (
        "Labels and updates",
        "For how many labelled episodes and updates do redistributed costs beat the labels as they are?",
    ),
    "imperfect-labels": (
        "Imperfect labels",
        "Do redistributed costs help where labels are wrong, or where stops come late?",
    ),
    "horizon": (
        "Horizon",
        "Does redistribution pay more where a violation is further from its cause?",
    ),
}

"""Fourth stage: a policy that earns what it can within the budget, from logs alone."""

from rci.learning.behaviour import fit_behaviour
from rci.learning.learners import LEARNERS, parse_options, refuse_few_proposals, settings_of
from rci.learning.policy_functions import predict_values, restore_policy
from rci.learning.policy_training import DISCOUNT, learn

__all__ = [
    "DISCOUNT",
    "LEARNERS",
    "fit_behaviour",
    "learn",
    "parse_options",
    "predict_values",
    "refuse_few_proposals",
    "restore_policy",
    "settings_of",
]

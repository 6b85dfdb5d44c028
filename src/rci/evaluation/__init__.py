"""Fifth stage: what a policy really earns and how often it is unsafe, by the true rule."""

from rci.evaluation.metrics import evaluate, record_policy, score_driver, score_episodes

__all__ = ["evaluate", "record_policy", "score_driver", "score_episodes"]

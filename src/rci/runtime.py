"""What is taken away: a trained policy and a fitted monitor, run with NumPy and nothing else.

    policy = rci.runtime.load("runs/demo/policy")
    action = policy.act(obs)

Importing this package loads neither JAX nor anything else that is heavy.
"""

from rci.deploy.monitor import Monitor, load_monitor, monitor_record, risk_of
from rci.deploy.policies import METHODS, act_with, load

__all__ = ["METHODS", "Monitor", "act_with", "load", "load_monitor", "monitor_record", "risk_of"]

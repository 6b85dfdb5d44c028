"""How often a policy may be stopped, and how often it is: budgets, thresholds, estimates, intervals."""

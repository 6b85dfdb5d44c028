"""The highway: a batched simulator that is bitwise equal to highway-env, and the tasks on it."""

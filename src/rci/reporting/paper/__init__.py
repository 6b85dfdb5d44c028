"""The report of the experiments of the paper."""

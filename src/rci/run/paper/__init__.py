"""The experiments of the paper, from recorded episodes to its figures and tables."""

"""Trackers of experiments that people use already: MLflow, Weights & Biases, TensorBoard."""

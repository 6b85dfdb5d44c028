"""The report of one run of the pipeline."""

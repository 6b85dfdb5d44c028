"""The report of redistributors side by side."""

"""What comes of runs and studies: rows, the table of results and the report, what trackers are given."""

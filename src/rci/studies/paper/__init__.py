"""`rci paper`: every experiment of the paper and ours, from one list to one page."""

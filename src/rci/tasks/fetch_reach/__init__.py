"""Safe-FetchReach: the Fetch arm reaches for a goal, and a sphere stands in its way."""

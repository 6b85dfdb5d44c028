"""Models of what was done that propose actions, and how far their proposals reach."""

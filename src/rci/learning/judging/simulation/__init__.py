"""Models of the world, learned from logs, and policies tried in them."""

"""A labeling session while people sit at it: its folder and journal, who is shown what, how far everybody is."""

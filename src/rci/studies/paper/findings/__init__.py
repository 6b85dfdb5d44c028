"""What the rows of the study say: its outcomes, frontiers, claims and answers."""

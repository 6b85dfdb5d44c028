"""`rci reference`: what is possible on a task when the danger is known."""

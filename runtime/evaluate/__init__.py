"""`flyball eval`: what Flyball's own decisions would have done to recorded runs."""

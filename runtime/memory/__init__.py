"""The experience memory at work: one path by which experiences are written and read."""

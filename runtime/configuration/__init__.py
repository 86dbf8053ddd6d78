"""`flyball.toml`: its shape, its errors and what the rest of the house gets from it."""

"""Information flow: what a session has seen decides what may leave it."""

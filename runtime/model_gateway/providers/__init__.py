"""Who serves models, and how they are reached."""

"""The learned router: what a prompt looks like, and what each tier would make of it."""

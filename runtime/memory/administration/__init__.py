"""What administrators do with the memory: look, teach, erase, carry, and correct playbooks.

The ways in are one a job: `experiences`, `playbooks` and `carrying`, each for its admin routes.
"""

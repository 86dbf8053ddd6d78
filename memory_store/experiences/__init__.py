"""Experiences as rows: written once, corrected by others, logged, and erased for good."""

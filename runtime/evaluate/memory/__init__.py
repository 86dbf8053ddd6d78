"""Measuring what is found in memory: conversations with questions whose evidence is known."""

"""Keeping a command to the places and devices that its rule allows."""

"""Backups: what is durable, copied while it is in use, and put back whole or not at all."""

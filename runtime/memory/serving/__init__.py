"""The memory as one sidecar has it, put together on an open store.

The way in is `memory`, for all who serve agents and administrators.
"""

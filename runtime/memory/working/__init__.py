"""Where long sessions stand: what gives way in them, what is kept of it, what they are told.

The ways in are `context` with `advised` before it, and `compaction` with its `keeper`.
"""

"""How well each search is done: by a plan that is worth it, and how that is learned.

The ways in are `searching`, for who searches, and `learning`, for who promotes or rolls back.
"""

"""What the house does with models and readings for itself, charged like any call.

The ways in are `model`, asked within an `allowance`, and `summaries`, which puts both together.
"""

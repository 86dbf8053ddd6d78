"""What agents have of one another: banks of teams, and what served others leaves quarantine.

The ways in are `banks` and `quorum`.
"""

"""Which namespaces are meant by a name, of agents or administrators, and what may be done there.

The ways in are `granted`, for agents, with the `rooms` that are open to them, and `places`.
"""

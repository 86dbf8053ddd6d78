"""Agents that `flyball run` starts: each one session, in a domain, paid for while it runs."""

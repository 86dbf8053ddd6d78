"""Operators' own probes: compiled with bcc, counted per domain."""

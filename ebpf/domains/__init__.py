"""Domains: the fence around one command, in the kinds that hosts can build."""

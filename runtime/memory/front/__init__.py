"""The experience memory over HTTP: each request is a call of one of the memory's tools.

The way in is `routes`.
"""

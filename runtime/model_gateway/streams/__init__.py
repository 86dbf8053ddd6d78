"""Streamed answers, relayed byte for byte."""

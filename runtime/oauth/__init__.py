"""Callers that bring a token of an authorization server instead of one of ours."""

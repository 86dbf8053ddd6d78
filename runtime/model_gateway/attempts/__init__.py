"""What is done about model providers that fail: retries, keys that rest, sessions that stay."""

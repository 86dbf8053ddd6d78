"""The wire formats that model calls are made in."""

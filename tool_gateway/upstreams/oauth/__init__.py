"""What this sidecar does as a client of authorization servers."""

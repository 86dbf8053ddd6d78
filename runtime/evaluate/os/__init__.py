"""`flyball eval os`: recorded sessions replayed with real processes that share a machine."""

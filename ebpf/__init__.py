"""What the machine enforces and measures around one call."""

"""What is decided about model providers that fail, refuse, or keep a prompt warm."""

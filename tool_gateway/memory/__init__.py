"""The built-in tools of the experience memory."""

"""The one path that every tool call takes."""

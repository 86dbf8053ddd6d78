"""The `flyball` command."""

from runtime.cli.main import main

__all__ = ["main"]

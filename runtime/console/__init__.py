"""The console: pages for administrators, made of what the admin API answers."""

from runtime.console.app import WithConsole, console_app
from runtime.console.parts import ConsoleParts

__all__ = ["ConsoleParts", "WithConsole", "console_app"]

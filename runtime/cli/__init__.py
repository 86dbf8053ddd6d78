"""The `flyball` command."""

import json
import sys
from collections.abc import Sequence

from runtime.collector import loading

__all__ = ["main"]

_EXIT_FAULT = 2
_EXIT_INTERRUPTED = 130
_WINDOWS = "Windows is not supported; run Flyball inside WSL2."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if sys.platform == "win32":
        if "--json" in words:
            sys.stdout.write(json.dumps({"ok": False, "error": _WINDOWS}) + "\n")
        else:
            sys.stderr.write(f"flyball: {_WINDOWS}\n")
        sys.exit(_EXIT_FAULT)
    try:
        # Not before: the rest needs modules that Windows does not have, and takes a second in
        # which Ctrl-C is no reason for a traceback.
        with loading():
            from runtime.cli.command_line import run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
    sys.exit(run(words))

"""Executes the Python snippets that it is handed, those of one page in one namespace.

Run as a program: a line of JSON for each snippet on standard input, one for each answer.
"""

import contextlib
import io
import json
import sys
import traceback
from typing import Any


def main() -> None:
    """Answer until standard input ends."""
    page, names = "", {}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["page"] != page:
            page, names = asked["page"], {"__name__": "__main__"}
        sys.__stdout__.write(json.dumps(_executed(asked, names)) + "\n")
        sys.__stdout__.flush()


def _executed(asked: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    printed = io.StringIO()
    fault = None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(asked["text"], asked["place"], "exec"), names)
        except BaseException:  # noqa: BLE001 - whatever it is, the test tells it
            fault = traceback.format_exc()
    return {"printed": printed.getvalue(), "fault": fault}


if __name__ == "__main__":
    main()

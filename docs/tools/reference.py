"""`python -m docs.tools.reference` writes the pages of the reference; `--check` compares them."""

import argparse
import sys
import tomllib
from collections.abc import Callable, Mapping

from docs.tools.admin_page import admin_page
from docs.tools.alerts_page import alerts_page
from docs.tools.commands_page import commands_page
from docs.tools.config_page import configuration_page
from docs.tools.errors_page import WORDS, denials_page, problems_page
from docs.tools.metrics_page import metrics_page
from docs.tools.snippets import DOCS
from docs.tools.snippets_page import snippets_page

FOLDER = DOCS / "reference"


def _denials() -> str:
    return denials_page(tomllib.loads(WORDS.read_text(encoding="utf-8")))


# The page that counts snippets comes last: it looks at the others.
MAKERS: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "commands.md": commands_page,
    "admin-api.md": admin_page,
    "metrics.md": metrics_page,
    "alerts.md": alerts_page,
    "errors.md": problems_page,
    "denials.md": _denials,
    "snippets.md": snippets_page,
}


def outdated() -> list[str]:
    """Return the names of the pages that are not as they would be made now."""
    found = []
    for name, make in MAKERS.items():
        path = FOLDER / name
        if not path.is_file() or path.read_text(encoding="utf-8") != make():
            found.append(name)
    return found


def main() -> int:
    """Write the pages, or say which are out of date; return the status."""
    parser = argparse.ArgumentParser(description="Write the pages of docs/reference.")
    parser.add_argument("--check", action="store_true", help="write nothing, say what is outdated")
    if parser.parse_args().check:
        stale = outdated()
        sys.stdout.writelines(f"docs/reference/{name} is out of date\n" for name in stale)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name, make in MAKERS.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the commented template says of each key of the configuration."""

import re
from collections.abc import Iterator

_TABLE = re.compile(r"^#? ?\[{1,2}(?P<name>[\w.]+)\]{1,2}")
_KEY = re.compile(r"^(?:# )?(?P<key>[a-z][\w]*) = (?P<value>[^#]*?)\s*(?:# (?P<words>.*))?$")
_MORE = re.compile(r"^#\s{4,}# ?(?P<words>.+)$")
_SECTION = re.compile(r"^# ---")


def words_of(template: str) -> dict[tuple[str, str], str]:
    """Return the comment beside each (table, key) of the template.

    A comment goes on in the lines below it that begin with another sign of a comment.
    """
    words: dict[tuple[str, str], str] = {}
    at: tuple[str, str] | None = None
    for table, line in _placed(template):
        key = _KEY.match(line)
        more = _MORE.match(line)
        if key is not None:
            at = (table, key["key"]) if key["words"] else None
            if at is not None:
                words.setdefault(at, key["words"].strip())
        elif more is not None and at is not None:
            words[at] = f"{words[at]} {more['words'].strip()}"
        else:
            at = None
    return words


def _placed(template: str) -> Iterator[tuple[str, str]]:
    """Yield each line with the table that it stands in."""
    table = ""
    for line in template.splitlines():
        found = _TABLE.match(line)
        if found is not None:
            table = found["name"]
        elif _SECTION.match(line) and table:
            table = ""
        yield table, line

"""The lines of a content that match a pattern, found in time linear in the content."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import re2

from tool_gateway.errors import MemoryRefusedError

_MEMORY_BYTES_MAX = 8 * 1024 * 1024
# A longer line is cut where it is shown: minified JSON has no lines at all.
_LINE_BYTES_MAX = 65_536
_SHOWN_CHARS_MAX = 500
_AROUND_CHARS = 200
_NEWLINE = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that is shown: its number, where it begins, and whether it matched."""

    number: int
    offset: int
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Grepped:
    """The lines that are shown, how many matched and how much was looked through."""

    lines: tuple[Line, ...]
    matches: int
    searched_bytes: int


class LinePattern:
    """A pattern in the syntax of RE2, for lines of bytes of any kind."""

    def __init__(self, pattern: str, *, ignores_case: bool) -> None:
        """Compile it.

        Raises:
            MemoryRefusedError: it is no such pattern, or too large a one.
        """
        options = re2.Options()
        options.max_mem = _MEMORY_BYTES_MAX
        options.log_errors = False
        options.case_sensitive = not ignores_case
        try:
            self._compiled = re2.compile(pattern, options)
            self._compiled.search("")
        except re2.error as error:
            why = error.args[0] if error.args else error
            words = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
            message = f"grep: no regular expression of RE2: {words}"
            raise MemoryRefusedError(message) from error

    def place_in(self, text: str) -> int | None:
        """Return where the first match in a text begins, None if there is none."""
        found = self._compiled.search(text)
        return None if found is None else int(found.start())


def grepped(
    slices: Iterable[bytes], pattern: LinePattern, *, context_lines: int, most: int
) -> Grepped:
    """Return the first `most` matching lines of a content, with the lines around each.

    The content comes in slices of any length; all of it is looked through, for the count.
    """
    shown: list[Line] = []
    before: deque[Line] = deque(maxlen=context_lines)
    matches = after = searched = 0
    for number, offset, raw in _lines(slices):
        searched = offset + len(raw)
        text = raw.decode(errors="replace").rstrip("\r\n")
        place = pattern.place_in(text)
        line = Line(
            number=number, offset=offset, text=_cut(text, place or 0), is_match=place is not None
        )
        if place is not None:
            matches += 1
            if matches <= most:
                shown.extend((*before, line))
                before.clear()
                after = context_lines
                continue
            after = 0
        if after > 0:
            shown.append(line)
            after -= 1
        else:
            before.append(line)
    return Grepped(lines=tuple(shown), matches=matches, searched_bytes=searched)


def grep_text(lines: Iterable[Line]) -> str:
    """Return lines as they are shown: number, a mark of whether it matched, the line."""
    told, last = [], 0
    for line in lines:
        if last and line.number > last + 1:
            told.append("--")
        told.append(f"{line.number}{':' if line.is_match else '-'}{line.text}")
        last = line.number
    return "\n".join(told)


def _lines(slices: Iterable[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield each line with its number and where it begins; what is very long comes in parts."""
    number, offset, rest = 1, 0, b""
    for part in slices:
        content, begin = rest + part, 0
        while begin < len(content):
            end = content.find(_NEWLINE, begin, begin + _LINE_BYTES_MAX)
            if end < 0 and len(content) - begin <= _LINE_BYTES_MAX:
                break
            line = content[begin : begin + _LINE_BYTES_MAX if end < 0 else end + 1]
            yield number, offset, line
            begin += len(line)
            offset += len(line)
            number += line.endswith(_NEWLINE)
        rest = content[begin:]
    if rest:
        yield number, offset, rest


def _cut(text: str, place: int) -> str:
    if len(text) <= _SHOWN_CHARS_MAX:
        return text
    begin = max(0, place - _AROUND_CHARS)
    end = begin + _SHOWN_CHARS_MAX
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"

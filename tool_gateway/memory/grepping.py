"""The lines of a content that match a pattern, found in time linear in the content."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import re2

from tool_gateway.errors import MemoryRefusedError

_MEMORY_BYTES_MAX = 8 * 1024 * 1024
# Each line that matches is a step in Python: what is said of more is that there are more.
_STEPS_MAX = 20_000
# A longer line is shown around its match: minified JSON has no lines at all.
_SHOWN_CHARS_MAX = 500
_AROUND_CHARS = 200
_CHAR_BYTES_MAX = 4
_WITHIN_A_CHAR = range(0x80, 0xC0)
_NEWLINE, _RETURN_NEWLINE = b"\n", b"\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that is shown: its number, where it begins, and whether it matched."""

    number: int
    offset: int
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Grepped:
    """The lines that are shown and how many matched, at least where they were not all counted."""

    lines: tuple[Line, ...]
    matches: int
    is_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Where a line that matches begins and ends, and where in it the match begins."""

    number: int
    begin: int
    end: int
    place: int


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
        # No match goes beyond a line, whatever the pattern says.
        options.never_nl = True
        try:
            # Alone first: what closes a group of ours is no pattern.
            re2.compile(pattern.encode(), options)
            self._compiled = re2.compile(b"(?m:" + pattern.encode() + b")", options)
            self._compiled.search(b"")
        except re2.error as error:
            why = error.args[0] if error.args else error
            words = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
            message = f"grep: no regular expression of RE2: {words}"
            raise MemoryRefusedError(message) from error

    def place_in(self, content: bytes, position: int) -> int | None:
        """Return where the first match from a position on begins, None if there is none."""
        found = self._compiled.search(content, position)
        return None if found is None else int(found.start())


def grepped(content: bytes, pattern: LinePattern, *, context_lines: int, most: int) -> Grepped:
    """Return the first `most` matching lines of a content, with the lines around each.

    It holds the thread that it runs in: some tenths of a second for some megabytes at the most.
    """
    spans: list[_Span] = []
    matches = steps = 0
    for span in _matching(content, pattern):
        steps += 1
        if steps > _STEPS_MAX:
            break
        if span is None:
            continue
        matches += 1
        if matches <= most + 1:
            spans.append(span)
    shown = _with_context(content, spans, context_lines=context_lines, most=most)
    return Grepped(lines=tuple(shown), matches=matches, is_all=steps <= _STEPS_MAX)


def grep_text(lines: Iterable[Line]) -> str:
    """Return lines as they are shown: number, a mark of whether it matched, the line."""
    told, last = [], 0
    for line in lines:
        if last and line.number > last + 1:
            told.append("--")
        told.append(f"{line.number}{':' if line.is_match else '-'}{line.text}")
        last = line.number
    return "\n".join(told)


def _matching(content: bytes, pattern: LinePattern) -> Iterator[_Span | None]:
    """Yield the lines that match, and None for each step that found no line."""
    # Where a line ends in two bytes its pattern should see the end before the first. What is
    # between them then is a line that there is not.
    seen = content.replace(_RETURN_NEWLINE, _NEWLINE * 2)
    position = last = 0
    number = 1
    while position < len(content):
        place = pattern.place_in(seen, position)
        if place is None or (place == len(content) and content.endswith(_NEWLINE)):
            return
        if place > 0 and content[place - 1 : place + 1] == _RETURN_NEWLINE:
            position = place + 1
            yield None
            continue
        begin = content.rfind(_NEWLINE, last, place) + 1 or last
        end = content.find(_NEWLINE, place)
        end = len(content) if end < 0 else end
        number += content.count(_NEWLINE, last, begin)
        yield _Span(number=number, begin=begin, end=end, place=place)
        last, position = begin, end + 1


def _with_context(
    content: bytes, spans: list[_Span], *, context_lines: int, most: int
) -> Iterator[Line]:
    """Yield the lines that are shown in their order; more spans than `most` only end the last."""
    floor = 0
    for span, after in pairwise((*spans, None)):
        if span is None or most <= 0:
            return
        most -= 1
        before: list[Line] = []
        begin, number = span.begin, span.number
        while begin > floor and len(before) < context_lines:
            end, begin = begin - 1, content.rfind(_NEWLINE, floor, begin - 1) + 1 or floor
            number -= 1
            before.append(_line(content, number, begin, end))
        yield from reversed(before)
        yield _line(content, span.number, span.begin, span.end, place=span.place)
        floor, number = span.end + 1, span.number
        until = len(content) if after is None else after.begin
        for _ in range(context_lines):
            if floor >= until:
                break
            end = content.find(_NEWLINE, floor)
            end = len(content) if end < 0 else end
            number += 1
            yield _line(content, number, floor, end)
            floor = end + 1


def _line(content: bytes, number: int, begin: int, end: int, *, place: int | None = None) -> Line:
    text = _text_around(content[begin:end].rstrip(b"\r"), 0 if place is None else place - begin)
    return Line(number=number, offset=begin, text=text, is_match=place is not None)


def _text_around(raw: bytes, place: int) -> str:
    """Return a line as it is shown: whole, or where it is very long what is around a place."""
    begin = max(0, place - _AROUND_CHARS * _CHAR_BYTES_MAX)
    while begin and begin < len(raw) and raw[begin] in _WITHIN_A_CHAR:
        begin += 1  # not into the middle of a character
    text = raw[begin : place + _SHOWN_CHARS_MAX * _CHAR_BYTES_MAX].decode(errors="replace")
    return _cut(text, len(raw[begin:place].decode(errors="replace")), is_begun=begin > 0)


def _cut(text: str, place: int, *, is_begun: bool) -> str:
    if len(text) <= _SHOWN_CHARS_MAX and not is_begun:
        return text
    begin = max(0, place - _AROUND_CHARS)
    end = begin + _SHOWN_CHARS_MAX
    return f"{'…' if begin or is_begun else ''}{text[begin:end]}{'…' if end < len(text) else ''}"

"""`memory_read`: a range of what is kept under an index, or the lines of it that match."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread

from governor.call import ToolCall
from governor.experience.tokens import (
    BYTES_PER_TOKEN,
    beginning_of,
    tokens_of,
    tokens_of_bytes,
)
from governor.ids import ArchiveId, ExperienceId
from tool_gateway.archiving import cut_to_characters, read_note
from tool_gateway.errors import ExperienceMissError, MemoryRefusedError
from tool_gateway.memory.grepping import Grepped, Line, LinePattern, grep_text, grepped
from tool_gateway.memory.ports import ExperienceMemory
from tool_gateway.memory.requests import (
    EXPERIENCE_PREFIX,
    GrepAsked,
    ReadBounds,
    grep_asked,
    integer,
    read_bounds,
)
from tool_gateway.ports import ResultArchive
from tool_gateway.results import ARCHIVE_META, EXPERIENCE_META, Json, ToolResult, text_block

SLICE_BYTES = 1024 * 1024
# What one call looks through; a longer content is looked through from where it ended.
GREP_BYTES_MAX = 8 * 1024 * 1024
SEARCHING_MAX = 2
_BASE64_CHARS, _BASE64_BYTES = 4, 3
# What is said of an experience beside its content, to programs.
_SAID = ("index", "role", "lane", "standing", "kind", "source", "media_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A range of bytes of either kind, and what its `_meta` says of the whole."""

    content: bytes
    total_bytes: int
    meta_name: str
    meta: Json
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passage:
    """What is shown of a range, and how many bytes of the content that is."""

    text: str
    encoding: str
    size_bytes: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a read shows, and how many tokens that is."""

    result: ToolResult
    tokens: int


class Reads:
    """Reads archived results and experiences alike."""

    def __init__(self, *, archive: ResultArchive, memory: ExperienceMemory | None) -> None:
        """Take both; without a memory there are archived results alone."""
        self._archive = archive
        self._memory = memory
        self._searching = anyio.CapacityLimiter(SEARCHING_MAX)

    async def read(self, call: ToolCall) -> Read:
        """Return what is asked for.

        Raises:
            GatewayError: it is not there, damaged, or not to be had now.
        """
        asked = call.arguments
        bounds = read_bounds(asked, takes_bytes=call.takes_bytes)
        grep = grep_asked(asked)
        if grep is not None:
            return await self._grep(call, grep, bounds)
        offset = integer(asked, "offset", 0)
        part = await self._part(call, offset=offset, length=bounds.bytes_max)
        if asked.get("encoding") != "base64":
            passage = _legible(part, offset, bounds)
        else:
            passage = _as_bytes(part, bounds) if bounds.is_as_bytes else _exact(part, bounds)
        return _read(str(asked["index"]), part, offset, passage)

    async def _grep(self, call: ToolCall, asked: GrepAsked, bounds: ReadBounds) -> Read:
        pattern = LinePattern(asked.pattern, ignores_case=asked.ignores_case)
        offset = integer(call.arguments, "offset", 0)
        first = await self._part(call, offset=offset, length=SLICE_BYTES)
        content = await self._from(call, first, offset)
        search = partial(
            grepped, content, pattern, context_lines=asked.context_lines, most=asked.most
        )
        # Beside the loop, and few at once: nobody else waits for somebody's pattern.
        found = await anyio.to_thread.run_sync(search, limiter=self._searching)
        return _grep_shown(found, first, bounds, offset=offset, end=offset + len(content))

    async def _from(self, call: ToolCall, first: _Part, offset: int) -> bytes:
        """Return a content from an offset on, as much as one call looks through."""
        slices, end = [first.content], offset + len(first.content)
        most = min(first.total_bytes, offset + GREP_BYTES_MAX)
        while end < most and slices[-1]:
            length = min(SLICE_BYTES, most - end)
            slices.append((await self._part(call, offset=end, length=length, is_more=True)).content)
            end += len(slices[-1])
        return b"".join(slices)

    async def _part(
        self, call: ToolCall, *, offset: int, length: int, is_more: bool = False
    ) -> _Part:
        index = str(call.arguments["index"])
        if not index.startswith(EXPERIENCE_PREFIX):
            return await self._archived(call, ArchiveId(index), offset=offset, length=length)
        if self._memory is None:
            raise ExperienceMissError
        part = await self._memory.portion(
            call,
            ExperienceId(index),
            offset=offset,
            length=min(length, SLICE_BYTES),
            is_more=is_more,
        )
        kept = part.experience
        meta = {
            "index": index,
            "role": part.role,
            "lane": kept.lane.value,
            "standing": kept.standing.value,
            "kind": kept.kind.value,
            "source": kept.provenance.source,
            "media_type": kept.media_type,
            "learned_at_ms": kept.learned_at_ms,
            "receipt": dict(part.receipt),
        }
        return _Part(
            content=part.content,
            total_bytes=kept.size_bytes,
            meta_name=EXPERIENCE_META,
            meta=meta,
            before=part.before,
            after=part.after,
        )

    async def _archived(
        self, call: ToolCall, index: ArchiveId, *, offset: int, length: int
    ) -> _Part:
        part = await self._archive.read(index, chain=call.chain, offset=offset, length=length)
        return _Part(
            content=part.content,
            total_bytes=part.total_bytes,
            meta_name=ARCHIVE_META,
            meta={"archive_id": index, "sha256": part.sha256},
        )


def _exact(part: _Part, bounds: ReadBounds) -> _Passage:
    """Return the range as base64, as much as there are tokens for, and a byte at least."""
    content = part.content
    text = base64.b64encode(content).decode()
    if bounds.tokens_max is not None:
        fitting = len(beginning_of(text, bounds.tokens_max)) // _BASE64_CHARS * _BASE64_BYTES
        if fitting < len(content):
            content = content[: max(1, fitting)]
            text = base64.b64encode(content).decode()
    return _Passage(text=text, encoding="base64", size_bytes=len(content), tokens=tokens_of(text))


def _as_bytes(part: _Part, bounds: ReadBounds) -> _Passage:
    """Return the range as it is carried to a reader of bytes, counted as what those are."""
    content = part.content
    if bounds.tokens_max is not None:
        content = content[: max(1, _bytes_within(content, bounds.tokens_max))]
    return _Passage(
        text=base64.b64encode(content).decode(),
        encoding="base64",
        size_bytes=len(content),
        tokens=tokens_of_bytes(content),
    )


def _bytes_within(content: bytes, tokens_max: int) -> int:
    """Return how many of the first bytes are no more than so many tokens."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return tokens_max * BYTES_PER_TOKEN
    return len(beginning_of(text, tokens_max).encode())


def _legible(part: _Part, offset: int, bounds: ReadBounds) -> _Passage:
    """Return the range as text, as much as there are tokens for.

    Raises:
        MemoryRefusedError: it is no text.
    """
    content = part.content
    try:
        content = cut_to_characters(content)
        text = content.decode()
    except UnicodeDecodeError as error:
        message = (
            f"bytes {offset}-{offset + len(content)} are not UTF-8 text from their "
            'first byte on; read them with "encoding": "base64", or from another offset'
        )
        raise MemoryRefusedError(message) from error
    if bounds.tokens_max is not None:
        text = beginning_of(text, bounds.tokens_max)
    return _Passage(
        text=text, encoding="utf-8", size_bytes=len(text.encode()), tokens=tokens_of(text)
    )


def _read(index: str, part: _Part, offset: int, passage: _Passage) -> Read:
    """Return the range and a line that says how to go on."""
    end = offset + passage.size_bytes
    note = read_note(ArchiveId(index), offset=offset, end=end, total_bytes=part.total_bytes)
    meta = {**part.meta, **_range(part, offset, end)}
    structured = None
    if part.meta_name == EXPERIENCE_META:
        structured = {
            **{name: part.meta[name] for name in _SAID},
            "content": passage.text,
            "encoding": passage.encoding,
            **_range(part, offset, end),
        }
    return Read(
        result=ToolResult(
            content=_blocks(part, passage.text, note),
            structured=structured,
            meta={part.meta_name: meta},
        ),
        tokens=passage.tokens,
    )


def _range(part: _Part, offset: int, end: int) -> dict[str, object]:
    return {
        "offset": offset,
        "next_offset": end if end < part.total_bytes else None,
        "total_bytes": part.total_bytes,
    }


def _blocks(part: _Part, text: str, note: str) -> tuple[Json, ...]:
    """Return a text between the lines that say what it is, in blocks of their own."""
    shown = text_block(text)
    if not part.before:
        return shown, text_block(note)
    return text_block(part.before), shown, text_block(f"{part.after}\n{note}")


def _grep_shown(found: Grepped, part: _Part, bounds: ReadBounds, *, offset: int, end: int) -> Read:
    lines, text = _fitting_lines(found.lines, bounds.tokens_held, offset=offset)
    shown = sum(line.is_match for line in lines)
    least = "" if found.is_all else "at least "
    told = f"[{least}{found.matches} lines match, {shown} of them are shown"
    if len(lines) < len(found.lines):
        told += ", cut to max_tokens"
    if end < part.total_bytes:
        told += f"; looked through bytes {offset}-{end} of {part.total_bytes}, go on from {end}"
    searched = {"matches": found.matches, **_range(part, offset, end)}
    meta = {**part.meta, **searched}
    structured = None
    if part.meta_name == EXPERIENCE_META:
        structured = {
            **{name: part.meta[name] for name in _SAID},
            "content": text,
            **searched,
            "offsets": _offsets(lines, offset),
        }
    return Read(
        result=ToolResult(
            content=_blocks(part, text, f"{told}]"),
            structured=structured,
            meta={part.meta_name: meta},
        ),
        tokens=_grep_tokens(lines, offset) if lines else tokens_of(text),
    )


def _fitting_lines(
    lines: Sequence[Line], tokens_max: int, *, offset: int
) -> tuple[Sequence[Line], str]:
    """Return the first lines that are no more than so many tokens, and how they are shown.

    Where not even one is, its beginning is shown, and it counts as none.
    """
    most, tried = 0, len(lines)
    above = len(lines) + 1
    while above - most > 1:
        if _grep_tokens(lines[:tried], offset) <= tokens_max:
            most = tried
        else:
            above = tried
        tried = (most + above) // 2
    if most or not lines:
        return lines[:most], grep_text(lines[:most])
    return (), beginning_of(grep_text(lines[:1]), tokens_max)


def _grep_tokens(lines: Sequence[Line], offset: int) -> int:
    """Return how many tokens lines take that are shown, with where they begin."""
    offsets = _offsets(lines, offset)
    return tokens_of(grep_text(lines)) + (tokens_of(json.dumps(offsets)) if offsets else 0)


def _offsets(lines: Sequence[Line], offset: int) -> dict[str, object]:
    """Return where matching lines begin, from where the lines around them are read on."""
    return {str(one.number): offset + one.offset for one in lines if one.is_match}

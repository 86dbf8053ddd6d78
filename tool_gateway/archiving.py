"""Results too large for the model: a head to read now and an index to the rest."""

import codecs
import json
from dataclasses import replace

from governor.ids import ArchiveId
from governor.policy import ToolRule
from tool_gateway.ports import Archived
from tool_gateway.results import ARCHIVE_META, ToolResult, text_block

HEAD_SHARE = 4
READ_TOOL = "memory_read"


def archive_form(result: ToolResult) -> tuple[bytes, str]:
    """Return the bytes that stand for the whole result, with their media type.

    One text block is kept as its own bytes, so that a range of the archive is a range of
    the tool's output, unless structured content says something else beside it. Anything
    else is kept as the JSON that the tool answered.
    """
    text = result.sole_text
    if text is not None and (result.structured is None or _says(text, result.structured)):
        return text.encode(), "text/plain; charset=utf-8"
    wire = replace(result, closing=None).to_wire()
    wire.pop("_meta", None)
    return json.dumps(wire, ensure_ascii=False).encode(), "application/json"


def _says(text: str, structured: object) -> bool:
    """Tell whether `text` is the same statement as `structured`, as the protocol advises."""
    try:
        return bool(json.loads(text) == structured)
    except ValueError:
        return False


def is_oversize(result: ToolResult, rule: ToolRule) -> bool:
    """Tell whether the rule keeps the whole result from the model."""
    return result.size_bytes > rule.archive_above_bytes


def indexed(
    result: ToolResult, archived: Archived, rule: ToolRule, *, has_output_schema: bool
) -> ToolResult:
    """Return what the model sees of a result that was archived.

    A tool that declares an output schema keeps its result uncut, because clients validate
    it, unless the rule takes the schema out of tools/list.
    """
    entry = archive_entry(archived)
    if has_output_schema and not rule.drop_output_schema:
        return result.with_meta(**{ARCHIVE_META: {**entry, "cut": False}})
    content, _ = archive_form(result)
    head = cut_to_characters(content[: max(1, rule.archive_above_bytes // HEAD_SHARE)])
    note = _note(archived, len(head))
    return ToolResult(
        content=(text_block(head.decode()), text_block(note)),
        is_error=result.is_error,
        closing=result.closing,
        meta={**result.meta, ARCHIVE_META: {**entry, "cut": True, "head_bytes": len(head)}},
    )


def archive_entry(archived: Archived) -> dict[str, object]:
    """Return what names an archived result."""
    return {
        "archive_id": archived.archive_id,
        "sha256": archived.sha256,
        "total_bytes": archived.total_bytes,
    }


def aside_note(archive_id: ArchiveId) -> str:
    """Return the words that tell the model where a result is that it is not shown."""
    return f' What it answered is kept: {READ_TOOL} {{"index": "{archive_id}"}} shows it.'


def cut_to_characters(content: bytes) -> bytes:
    """Return `content` without a UTF-8 character that is cut off at its end.

    Raises:
        UnicodeDecodeError: the bytes are not UTF-8 text.
    """
    _, whole = codecs.utf_8_decode(content, "strict", False)  # noqa: FBT003 - C signature
    return content[:whole]


def read_note(archive_id: ArchiveId, *, offset: int, end: int, total_bytes: int) -> str:
    """Return the line under a range that tells the model how to go on."""
    if end >= total_bytes:
        return f"[bytes {offset}-{end} of {total_bytes}; this is the end]"
    return (
        f"[bytes {offset}-{end} of {total_bytes}; "
        f'go on with {READ_TOOL} {{"index": "{archive_id}", "offset": {end}}}]'
    )


def _note(archived: Archived, head_bytes: int) -> str:
    return (
        f"[The result is {archived.total_bytes} bytes; these are the first {head_bytes}. "
        f"The whole is kept as {archived.archive_id}. "
        f'Read on with {READ_TOOL} {{"index": "{archived.archive_id}", "offset": {head_bytes}}}.]'
    )

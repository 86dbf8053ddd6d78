"""The built-in tools that read: archived results and the caller's own budgets."""

import base64
import json
from collections.abc import Mapping

from governor.amounts import Unit
from governor.call import CallStatus, Isolated, ToolCall
from governor.ids import ArchiveId, ToolName, UpstreamName
from governor.limits import ExecutionLimits
from tool_gateway.archiving import READ_TOOL, cut_to_characters, read_note
from tool_gateway.books import Books
from tool_gateway.catalog import ToolEntry
from tool_gateway.errors import ArchiveDamagedError, ArchiveMissError, ArchiveUnavailableError
from tool_gateway.ports import Meter, ResultArchive, Slice
from tool_gateway.results import (
    ARCHIVE_META,
    Outcome,
    ToolResult,
    text_block,
    text_result,
)

MEMORY_READ = ToolName(READ_TOOL)
GOVERNOR_STATUS = ToolName("governor_status")
BUILTIN = UpstreamName("flyball")
READ_BYTES_DEFAULT = 16_384
READ_BYTES_MAX = 1_048_576

_READ_ONLY = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}

ENTRIES = (
    ToolEntry(
        exposed=MEMORY_READ,
        original=MEMORY_READ,
        backend=BUILTIN,
        is_bounded=True,
        definition={
            "name": MEMORY_READ,
            "title": "Read an archived result",
            "description": (
                "Read a range of a result that was too large to show. `index` is the id that the "
                "cut result names; `offset` and `max_bytes` choose the range, in bytes."
            ),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "index": {"type": "string", "minLength": 1, "maxLength": 100},
                    "offset": {"type": "integer", "minimum": 0, "default": 0},
                    "max_bytes": {
                        "type": "integer",
                        "minimum": 4,
                        "maximum": READ_BYTES_MAX,
                        "default": READ_BYTES_DEFAULT,
                    },
                    "encoding": {
                        "enum": ["utf-8", "base64"],
                        "default": "utf-8",
                        "description": "base64 returns the exact bytes of any range.",
                    },
                },
                "required": ["index"],
                "additionalProperties": False,
            },
            "annotations": _READ_ONLY,
        },
    ),
    ToolEntry(
        exposed=GOVERNOR_STATUS,
        original=GOVERNOR_STATUS,
        backend=BUILTIN,
        is_bounded=True,
        definition={
            "name": GOVERNOR_STATUS,
            "title": "What remains of the budgets",
            "description": (
                "Show every budget that this session is charged to: what remains, at what pace it "
                "goes, when it resets, and how thrifty to be."
            ),
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
            "annotations": _READ_ONLY,
        },
    ),
)


class Builtins:
    """Runs the built-in reading tools inside the process."""

    name = BUILTIN
    unmeasurable: Mapping[Unit, str] = {Unit.CPU_MS: "it runs inside the sidecar"}

    def __init__(self, *, archive: ResultArchive, books: Books) -> None:
        """Take the ports."""
        self._archive = archive
        self._books = books

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        """Return None: nothing local is started."""
        return None

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        """Answer one of the built-in tools."""
        if call.tool == MEMORY_READ:
            return await self._read(call)
        tracked = await self._books.tracked(call.chain)
        if tracked is None:
            text = "The ledger does not answer; what remains cannot be said. Try again."
            return Outcome(
                result=text_result(text, is_error=True), status=CallStatus.TOOL_ERROR, detail=text
            )
        shape = tracked.as_json()
        return Outcome(
            result=ToolResult(
                content=(
                    text_block(json.dumps(shape, ensure_ascii=False)),
                    text_block(tracked.status()),
                ),
                structured=shape,
            )
        )

    async def _read(self, call: ToolCall) -> Outcome:
        asked = call.arguments
        archive_id = ArchiveId(str(asked["index"]))
        try:
            part = await self._archive.read(
                archive_id,
                chain=call.chain,
                offset=_integer(asked, "offset", 0),
                length=_integer(asked, "max_bytes", READ_BYTES_DEFAULT),
            )
        except (ArchiveMissError, ArchiveDamagedError, ArchiveUnavailableError) as error:
            return Outcome(
                result=text_result(f"{archive_id}: {error}", is_error=True),
                status=CallStatus.TOOL_ERROR,
                detail=str(error),
            )
        return Outcome(result=_shown(archive_id, part, as_base64=asked.get("encoding") == "base64"))


def _integer(arguments: Mapping[str, object], name: str, default: int) -> int:
    """Return an argument that the schema calls an integer; to JSON Schema 2.0 is one too."""
    value = arguments.get(name, default)
    return int(value) if isinstance(value, (int, float)) else default


def _shown(archive_id: ArchiveId, part: Slice, *, as_base64: bool) -> ToolResult:
    """Return the range and a line that says how to go on."""
    content = part.content
    if as_base64:
        text = base64.b64encode(content).decode()
    else:
        try:
            content = cut_to_characters(content)
            text = content.decode()
        except UnicodeDecodeError:
            return text_result(
                f"bytes {part.offset}-{part.offset + len(content)} are not UTF-8 text from their "
                'first byte on; read them with "encoding": "base64", or from another offset',
                is_error=True,
            )
    end = part.offset + len(content)
    note = read_note(archive_id, offset=part.offset, end=end, total_bytes=part.total_bytes)
    return ToolResult(
        content=(text_block(text), text_block(note)),
        meta={
            ARCHIVE_META: {
                "archive_id": archive_id,
                "sha256": part.sha256,
                "offset": part.offset,
                "next_offset": end if end < part.total_bytes else None,
                "total_bytes": part.total_bytes,
            }
        },
    )

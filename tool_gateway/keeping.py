"""Keeping results: the oversize ones whole, the keyed ones for a retry."""

import json
from dataclasses import dataclass, field

from governor.call import ToolCall
from governor.events import Replayed
from governor.ids import ArchiveId, ExperienceId
from governor.policy import ToolRule
from tool_gateway import telemetry
from tool_gateway.archiving import (
    archive_entry,
    archive_form,
    aside_note,
    indexed,
    is_oversize,
)
from tool_gateway.catalog import ToolEntry
from tool_gateway.errors import (
    ArchiveDamagedError,
    ArchiveMissError,
    ArchiveUnavailableError,
    LedgerOverloadedError,
    LedgerUnavailableError,
)
from tool_gateway.memory.definitions import WRITE
from tool_gateway.memory.ports import ResultRecorder
from tool_gateway.memory.retelling import without_words
from tool_gateway.ports import Archived, Clock, Ledger, ResultArchive
from tool_gateway.results import (
    ARCHIVE_META,
    CALL_META,
    EXPERIENCE_META,
    Json,
    ToolResult,
    text_result,
)

SNAPSHOT_MEDIA_TYPE = "application/vnd.flyball.result+json"
SLICE_BYTES = 1024 * 1024
_UNREADABLE = (
    ArchiveMissError,
    ArchiveDamagedError,
    ArchiveUnavailableError,
    LedgerUnavailableError,
    LedgerOverloadedError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the model sees of a result, and where the rest of it is."""

    result: ToolResult
    archive_id: ArchiveId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """Where a result is that another one stands for, and how its reader is told."""

    archive_id: ArchiveId | None = None
    note: str = ""
    meta: Json = field(default_factory=dict)


class ResultKeeper:
    """Archives results on their way out and brings back the outcome of a keyed call."""

    def __init__(
        self,
        *,
        archive: ResultArchive,
        ledger: Ledger,
        clock: Clock,
        can_be_read_on: bool = True,
        recorder: ResultRecorder | None = None,
    ) -> None:
        """Take the ports; where clients have no tool to read on with, nothing is cut for them.

        What a `recorder` keeps is kept beside the archive.
        """
        self._recorder = recorder
        self._can_be_read_on = can_be_read_on
        self._archive = archive
        self._ledger = ledger
        self._clock = clock

    async def keep(
        self, result: ToolResult, *, call: ToolCall, entry: ToolEntry, rule: ToolRule
    ) -> Kept:
        """Return what the model sees; the archive fails open, so it may be the whole result."""
        archive_id = None
        is_large = not entry.is_bounded and is_oversize(result, rule)
        recorded = await self._recorded(result, call, entry, is_oversize=is_large)
        if is_large:
            content, media_type = archive_form(result)
            archived = await self._put(content, call, media_type)
            if archived is not None:
                archive_id = archived.archive_id
                stays_whole = entry.has_output_schema or not self._can_be_read_on
                result = indexed(result, archived, rule, has_output_schema=stays_whole)
        if recorded is not None:
            result = result.with_meta(**{EXPERIENCE_META: {"index": recorded}})
        if call.idempotency is not None:
            replayable = without_words(result) if call.tool == WRITE else result
            snapshot = json.dumps(replayable.to_wire(), ensure_ascii=False).encode()
            archived = await self._put(snapshot, call, SNAPSHOT_MEDIA_TYPE)
            archive_id = None if archived is None else archived.archive_id
        return Kept(result=result, archive_id=archive_id)

    async def _recorded(
        self, result: ToolResult, call: ToolCall, entry: ToolEntry, *, is_oversize: bool
    ) -> ExperienceId | None:
        """Remember what a tool answered, where that is wanted; the house's own answers never."""
        if self._recorder is None or entry.is_own or not entry.is_tool or result.is_interim:
            return None
        return await self._recorder.record(call, result, entry=entry, is_oversize=is_oversize)

    async def put_aside(self, result: ToolResult, call: ToolCall) -> Aside:
        """Keep a result that is not shown; nothing is said of one that cannot be kept."""
        content, media_type = archive_form(result)
        archived = await self._put(content, call, media_type)
        if archived is None:
            return Aside()
        note = aside_note(archived.archive_id) if self._can_be_read_on else ""
        return Aside(
            archive_id=archived.archive_id,
            note=note,
            meta={ARCHIVE_META: archive_entry(archived)},
        )

    async def replay(self, call: ToolCall, seen: Replayed) -> ToolResult:
        """Return the outcome that the call's idempotency key already has."""
        original = seen.original.call_id
        if seen.original.is_live:
            return _told("in_progress", f"Call {original} with this key still runs.", original)
        try:
            archive_id = await self._ledger.replay_of(original)
            if archive_id is None:
                text = f"Call {original} ended; its result was not kept."
                return _told("not_kept", text, original)
            wire = json.loads(await self._whole(archive_id, call))
        except _UNREADABLE as error:
            return _told("not_kept", f"Call {original} ended; {error}", original)
        meta = {**wire.pop("_meta", {}), CALL_META: {"call_id": original, "replayed": True}}
        result = ToolResult(
            content=tuple(wire.pop("content", ())),
            structured=wire.pop("structuredContent", None),
            is_error=wire.pop("isError", False),
            meta=meta,
            extra=wire,
        )
        if call.tool != WRITE or self._recorder is None:
            return result
        return await self._recorder.retold(call, result)

    async def _whole(self, archive_id: ArchiveId, call: ToolCall) -> bytes:
        """Return every byte of an entry, which is read in slices."""
        content = b""
        while True:
            part = await self._archive.read(
                archive_id, chain=call.chain, offset=len(content), length=SLICE_BYTES
            )
            content += part.content
            if len(content) >= part.total_bytes or not part.content:
                return content

    async def _put(self, content: bytes, call: ToolCall, media_type: str) -> Archived | None:
        try:
            return await self._archive.put(
                content,
                chain=call.chain,
                call_id=call.call_id,
                media_type=media_type,
                now_ms=self._clock.now_ms(),
            )
        except ArchiveUnavailableError:
            telemetry.count_failure("archive")
            return None


def _told(state: str, text: str, original: str) -> ToolResult:
    return text_result(
        text, is_error=True, meta={CALL_META: {"call_id": original, "replayed": state}}
    )

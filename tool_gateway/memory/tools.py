"""The backend of the memory's tools: asks whoever keeps experiences, and says what that took."""

import json
from collections.abc import Awaitable, Callable, Mapping

from governor.amounts import NOTHING, Amounts
from governor.call import CallStatus, ToolCall
from governor.experience.answer import Answer
from governor.experience.charges import FREE, never_above, reading, writing
from governor.experience.kinds import Standing, TrustLane
from governor.experience.trust import DOUBTS_TOLD, Doubt
from governor.ids import ToolName
from governor.usage import Usage
from tool_gateway.errors import (
    ArchiveDamagedError,
    ArchiveMissError,
    ArchiveUnavailableError,
    ExperienceDamagedError,
    ExperienceMissError,
    MemoryRefusedError,
    MemoryUnavailableError,
)
from tool_gateway.memory import requests
from tool_gateway.memory.charging import MemoryCharging
from tool_gateway.memory.definitions import (
    CONTEXT,
    EXPAND,
    FEEDBACK,
    FORGET,
    READ,
    SEARCH,
    WRITE,
)
from tool_gateway.memory.ports import ExperienceMemory, Kept
from tool_gateway.memory.reads import Reads
from tool_gateway.ports import Meter, ResultArchive
from tool_gateway.results import EXPERIENCE_META, Outcome, ToolResult, text_block, text_result

URI_PREFIX = "flyball://memory/"
_TOLD = (
    ArchiveMissError,
    ArchiveDamagedError,
    ArchiveUnavailableError,
    ExperienceMissError,
    ExperienceDamagedError,
    MemoryRefusedError,
    MemoryUnavailableError,
)
_Answering = Callable[[ExperienceMemory, ToolCall], Awaitable[tuple[ToolResult, Amounts]]]


class MemoryTools:
    """Answers the memory's tools; without a memory archived results can still be read."""

    def __init__(
        self,
        *,
        archive: ResultArchive,
        memory: ExperienceMemory | None = None,
        charging: MemoryCharging | None = None,
    ) -> None:
        """Take what keeps results and experiences, and what is charged for that."""
        self._memory = memory
        self._charging = MemoryCharging(lambda: FREE) if charging is None else charging
        self._reads = Reads(archive=archive, memory=memory)

    async def run(self, call: ToolCall, meter: Meter) -> Outcome:
        """Answer one call of these tools; what cannot be done is said, and costs nothing."""
        held = self._charging.held(call)
        if call.tool != WRITE:
            # Of a call that is cut off nothing was shown. What one wrote nobody knows then.
            meter.usage = _usage(held, NOTHING)
        try:
            result, used = await self._answered(call)
        except _TOLD as error:
            return _failed(call, error, _usage(held, NOTHING))
        used = never_above(used, held)
        meter.usage = _usage(held, used)
        return Outcome(
            result=result,
            status=CallStatus.TOOL_ERROR if result.is_error else CallStatus.OK,
            usage=meter.usage,
            price_microusd=self._charging.price_of(used),
        )

    async def _answered(self, call: ToolCall) -> tuple[ToolResult, Amounts]:
        if call.tool == READ:
            read = await self._reads.read(call)
            return read.result, reading(read.tokens)
        if self._memory is None:
            raise MemoryRefusedError("the experience memory is switched off here")
        return await _ANSWERING[call.tool](self._memory, call)


async def _write(memory: ExperienceMemory, call: ToolCall) -> tuple[ToolResult, Amounts]:
    kept = await memory.write(call, requests.write_asked(call.arguments))
    if not kept.is_new:
        return _written(kept), NOTHING
    used = writing(size_bytes=kept.experience.size_bytes)
    return _written(kept), used.plus(used) if kept.is_copied else used


async def _search(memory: ExperienceMemory, call: ToolCall) -> tuple[ToolResult, Amounts]:
    return _shown(await memory.search(call, requests.search_asked(call.arguments)))


async def _expand(memory: ExperienceMemory, call: ToolCall) -> tuple[ToolResult, Amounts]:
    return _shown(await memory.around(call, requests.around_asked(call.arguments)))


async def _context(memory: ExperienceMemory, call: ToolCall) -> tuple[ToolResult, Amounts]:
    asked = call.arguments
    answer = await memory.context(
        call, focus=str(asked.get("focus", "")), tokens_max=requests.tokens_max(asked)
    )
    return _shown(answer)


async def _feedback(memory: ExperienceMemory, call: ToolCall) -> tuple[ToolResult, Amounts]:
    asked = call.arguments
    indices = requests.indices(asked, "indices")
    used = requests.share(asked, "used")
    await memory.credit(
        call,
        indices,
        used=1.0 if used is None else used,
        helpful=requests.share(asked, "helpful"),
    )
    return _said({"noted": list(indices)}, f"Noted of {len(indices)}."), NOTHING


async def _forget(memory: ExperienceMemory, call: ToolCall) -> tuple[ToolResult, Amounts]:
    indices = requests.indices(call.arguments, "indices")
    derived = await memory.forget(call, indices)
    also = f", and {derived} that were derived from it" if derived else ""
    shape: dict[str, object] = {"erased": list(indices), "derived_erased": derived}
    return _said(shape, f"Erased {len(indices)} for good{also}."), NOTHING


_ANSWERING: Mapping[ToolName, _Answering] = {
    WRITE: _write,
    SEARCH: _search,
    EXPAND: _expand,
    CONTEXT: _context,
    FEEDBACK: _feedback,
    FORGET: _forget,
}


def told_of(kept: Kept) -> str:
    """Return what a model is told of a write, and why it is not found like others."""
    one = kept.experience
    told = f"Kept as {one.experience_id}."
    if one.standing is Standing.QUARANTINED:
        why = "; ".join(DOUBTS_TOLD[Doubt(doubt)] for doubt in kept.doubts)
        told += (
            f" It waits in quarantine{f' ({why})' if why else ''}: its index reads it, no search "
            "finds it until it is promoted, as a rule by an administrator."
        )
    elif one.lane is TrustLane.WEB:
        told += (
            " It stands in lane web, because this session has seen what anybody may have written "
            'or what it is made of has: searches find it by lanes = ["web"].'
        )
    return told


def _written(kept: Kept) -> ToolResult:
    one = kept.experience
    shape: dict[str, object] = {
        "index": one.experience_id,
        "uri": f"{URI_PREFIX}{one.experience_id}",
        "namespace": kept.namespace,
        "kind": one.kind.value,
        "lane": one.lane.value,
        "standing": one.standing.value,
        "address": one.address,
        "bytes": one.size_bytes,
        "tokens": one.tokens,
        "summary": one.summary,
        "is_new": kept.is_new,
    }
    if kept.doubts:
        shape["doubts"] = list(kept.doubts)
    if kept.shared:
        shape["shared"] = kept.shared
        if kept.shared_as is not None:
            shape["shared_as"] = kept.shared_as
    result = _said(shape, told_of(kept))
    return result.with_meta(**{EXPERIENCE_META: {"index": one.experience_id}})


def _shown(answer: Answer) -> tuple[ToolResult, Amounts]:
    result = ToolResult(content=(text_block(answer.text),), structured=answer.structured)
    return result, reading(answer.tokens)


def _said(shape: Mapping[str, object], told: str) -> ToolResult:
    shown = text_block(json.dumps(shape, ensure_ascii=False))
    return ToolResult(content=(shown, text_block(told)), structured=dict(shape))


def _usage(held: Amounts, used: Amounts) -> Usage:
    """Return what a call used of each unit that was held for it."""
    return Usage(measured=Amounts({unit: used.of(unit) for unit, _ in held}))


def _failed(call: ToolCall, error: Exception, usage: Usage) -> Outcome:
    index = call.arguments.get("index")
    text = f"{index}: {error}" if isinstance(index, str) else str(error)
    kind = FAULTS.get(type(error), "refused")
    result = text_result(text, is_error=True, meta={FAULT_META: kind})
    return Outcome(result=result, status=CallStatus.TOOL_ERROR, usage=usage, detail=str(error))


# By this the HTTP front knows which problem a result stands for.
FAULT_META = "flyball/memory_fault"
FAULTS: Mapping[type[Exception], str] = {
    ArchiveMissError: "not_found",
    ExperienceMissError: "not_found",
    ArchiveDamagedError: "damaged",
    ExperienceDamagedError: "damaged",
    ArchiveUnavailableError: "unavailable",
    MemoryUnavailableError: "unavailable",
    MemoryRefusedError: "refused",
}

"""The loop breaker on the path of a call: what a session did before decides what it may repeat."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from governor.call import CallStatus
from governor.ids import CallId, SessionId
from governor.likeness import print_of_call, print_of_result
from governor.loops import (
    ENTRIES_MAX,
    Entry,
    History,
    Loop,
    LoopMeasure,
    LoopRule,
    judge_after,
    judge_before,
    opaque,
)
from tool_gateway import telemetry
from tool_gateway.denials import loop_detected
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.job import Job, Progress, Repeat, Served
from tool_gateway.kept_results import KeptResults
from tool_gateway.loop_texts import loop_json, reminder, served_note
from tool_gateway.ports import Clock, SessionPausing
from tool_gateway.results import LOOP_META, ToolResult

SESSIONS_MAX = 512
RESULTS_BYTES_MAX = 128 * 1024
_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=str).encode
# A call that never reached its backend or was cut off has said nothing about progress.
_SAYS_NOTHING = (CallStatus.RELEASED, CallStatus.CANCELLED, CallStatus.DENIED)


@dataclass(slots=True)
class _Trace:
    """What is remembered of one session."""

    history: History = field(default_factory=History)
    keys: OrderedDict[str, None] = field(default_factory=OrderedDict)
    results: KeptResults[CallId] = field(
        default_factory=lambda: KeptResults(bytes_max=RESULTS_BYTES_MAX)
    )

    def note_key(self, key: str) -> None:
        """Remember under which idempotency key a call ran."""
        self.keys[key] = None
        if len(self.keys) > ENTRIES_MAX:
            self.keys.popitem(last=False)


class LoopWatch:
    """Remembers the calls of each session, as far as loops are told from them.

    All of it is this process's memory: a restart forgets it, and then a loop begins anew. That
    a session is paused is the ledger's to remember.
    """

    def __init__(self, *, clock: Clock, pausing: SessionPausing) -> None:
        """Start with no session."""
        self._clock = clock
        self._pausing = pausing
        self._traces: OrderedDict[SessionId, _Trace] = OrderedDict()

    async def checked(self, job: Job) -> Job:
        """Return the job with what its session's earlier calls mean for it."""
        rule = job.rule.loops
        trace = self._trace_of(job.call.chain.session)
        key = job.call.idempotency
        if rule is None or job.is_retry or (key is not None and key.key in trace.keys):
            # A retry under a known key gets its own call's outcome from the ledger, and one
            # that brings what was asked for repeats nothing.
            return job
        entry = _entry_of(job, rule)
        repeat = Repeat(entry=entry, loop=judge_before(trace.history, entry, rule))
        if repeat.loop is None:
            return replace(job, repeat=repeat)
        return replace(job, repeat=await self._answered(job, repeat, repeat.loop, entry, rule))

    async def _answered(
        self, job: Job, repeat: Repeat, loop: Loop, entry: Entry, rule: LoopRule
    ) -> Repeat:
        """Return the repeat with what stands in for its run; as it was where nothing can."""
        trace = self._trace_of(job.call.chain.session)
        if loop.measure is LoopMeasure.SERVE:
            kept = trace.results.find(loop.like.answer)
            if kept is None:
                return replace(repeat, loop=None)
            trace.history.note(entry.answered_like(loop.like))
            return replace(repeat, served=kept[0])
        if loop.measure is LoopMeasure.PAUSE:
            try:
                is_new = await self._pausing.pause(
                    job.call.chain.session, now_ms=self._clock.now_ms()
                )
            except (LedgerUnavailableError, LedgerOverloadedError):
                telemetry.count_failure("pause")
                loop = replace(loop, measure=LoopMeasure.DENY)  # the next repeat tries again
            else:
                # Whoever resumes the session has it begin anew, with nothing held against it.
                self._traces.pop(job.call.chain.session, None)
                if not is_new:
                    # The ledger denies this call like every other of the session.
                    return replace(repeat, loop=None)
        trace.history.note(entry.answered_like(loop.like))
        denied = loop_detected(loop, tool=job.call.tool, within_ms=rule.within_ms)
        return replace(repeat, loop=loop, denied=denied)

    def noted(self, job: Job, progress: Progress) -> ToolResult:
        """Remember how a call that ran was answered; return its result, with a reminder if due."""
        assert progress.result is not None, "a call that was not cancelled has a result"
        result = progress.result
        if job.repeat.served is not None and job.repeat.loop is not None:
            note = served_note(job.repeat.loop, job.call.tool)
            return _marked(result, job.repeat.loop).with_note(note)
        if progress.status in _SAYS_NOTHING:
            return result
        trace = self._trace_of(job.call.chain.session)
        if job.call.idempotency is not None:
            trace.note_key(job.call.idempotency.key)
        rule, entry = job.rule.loops, job.repeat.entry
        if rule is None or entry is None:
            trace.history.note(opaque(job.call.call_id, at_ms=self._clock.now_ms()))
            return result
        whole = result if progress.outcome is None else progress.outcome.result
        entry = replace(
            entry,
            result=print_of_result(
                _texts(whole), is_error=whole.is_error, with_ids=entry.is_reading
            ),
            is_error=whole.is_error,
            at_ms=self._clock.now_ms(),
        )
        loop = judge_after(trace.history, entry, rule)
        trace.history.note(entry)
        if rule.serve and entry.is_repeatable and not (whole.is_error or whole.is_interim):
            served = Served(answer=job.call.call_id, turn=job.turn, result=result)
            trace.results.keep(served.answer, served)
        if loop is None:
            return result
        return _marked(result, loop).with_note(reminder(loop, job.call.tool))

    def _trace_of(self, session: SessionId) -> _Trace:
        """Return what is remembered of a session; the one that rested longest is forgotten."""
        trace = self._traces.setdefault(session, _Trace())
        self._traces.move_to_end(session)
        if len(self._traces) > SESSIONS_MAX:
            self._traces.popitem(last=False)
        return trace


def _entry_of(job: Job, rule: LoopRule) -> Entry:
    """Return the call as the history remembers it, before it has run."""
    hints = job.entry.definition.get("annotations")
    hints = hints if isinstance(hints, Mapping) else {}
    is_reading = rule.is_repeatable or hints.get("readOnlyHint") is True
    return Entry(
        answer=job.call.call_id,
        asked=print_of_call(job.call.tool, job.call.arguments),
        result=None,
        is_reading=is_reading,
        is_repeatable=is_reading or hints.get("idempotentHint") is True,
        is_error=False,
        at_ms=job.started_at_ms,
    )


def _marked(result: ToolResult, loop: Loop) -> ToolResult:
    return result.with_meta(**{LOOP_META: loop_json(loop)})


def _texts(result: ToolResult) -> tuple[str, ...]:
    blocks = tuple(
        str(block["text"]) if block.get("type") == "text" else _json(block)
        for block in result.content
    )
    return blocks if result.structured is None else (*blocks, _json(result.structured))

"""Kept answers on their way: gathered from what a provider says, and said again."""

from collections.abc import Mapping
from typing import Protocol

from governor.call import CallStatus
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.job import Job, Progress
from runtime.model_gateway.kept_answers import KeptAnswer, KeptAnswers
from runtime.model_gateway.measured import NOTHING_GENERATED
from runtime.model_gateway.streams.relay import Outlet
from tool_gateway import telemetry

_OK = 200


class NamedOutlet(Outlet, Protocol):
    """Where a stream goes, with the headers that it begins with."""

    def name(self, headers: Mapping[str, str]) -> None:
        """Take the headers, before anything is relayed."""
        ...


class Gathering:
    """Relays a stream, and keeps what was relayed as long as it is not too long."""

    def __init__(self, outlet: NamedOutlet, *, bytes_max: int) -> None:
        """Gather nothing yet."""
        self._outlet = outlet
        self._left = bytes_max
        self._parts: list[bytes] = []

    @property
    def has_begun(self) -> bool:
        """Tell whether the client was sent anything."""
        return self._outlet.has_begun

    @property
    def gathered(self) -> bytes | None:
        """Return everything that was relayed; None where that is nothing, or too long."""
        return b"".join(self._parts) or None

    def name(self, headers: Mapping[str, str]) -> None:
        """Take the headers, before anything is relayed."""
        self._outlet.name(headers)

    async def relay(self, events: bytes) -> None:
        """Send whole events, after the head of the answer where they are the first."""
        self._left -= len(events)
        if self._left >= 0:
            self._parts.append(events)
        else:
            self._parts.clear()
        await self._outlet.relay(events)


async def say_again(kept: KeptAnswer, progress: Progress, outlet: Outlet) -> None:
    """Answer with what was kept, as it came then: it costs nothing."""
    telemetry.count_cached("served")
    detail = f"answered with what was kept of {kept.call_id}"
    progress.result_bytes = len(kept.content)
    if kept.is_stream:
        await outlet.relay(kept.content)
        progress.note_stream(CallStatus.OK, detail, NOTHING_GENERATED)
        return
    progress.status, progress.detail = CallStatus.OK, detail
    progress.tokens = NOTHING_GENERATED
    progress.answer = Answer(status=_OK, content=kept.content)


def keep_what_came(
    answers: KeptAnswers, job: Job, progress: Progress, gathered: bytes | None, *, now_ms: int
) -> None:
    """Keep a whole answer that a provider gave, where the policy says so."""
    if job.keep is None or job.kept is not None or progress.status is not CallStatus.OK:
        return
    content = gathered if progress.answer is None else progress.answer.content
    if content is not None:
        answers.keep(
            job.keep,
            content,
            payload=job.payload,
            is_stream=progress.answer is None,
            call_id=job.call.call_id,
            now_ms=now_ms,
        )

"""Watching one running command until something ends it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from signal import SIGKILL

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from ebpf.attachment import Attachment
from ebpf.command import EndCause
from ebpf.domains.domain import Domain, Measured
from ebpf.errors import EbpfError
from ebpf.ladder import Ladder
from ebpf.launching import Launched
from ebpf.pausing import Pause
from governor.limits import ExecutionLimits

# How long pipes may stay open after the tree is dead: only a process that escaped an
# observed domain can hold one, and it must not hold the call.
DRAIN_SECONDS_MAX = 2.0


class Captured:
    """Both output streams of a command, kept up to one ceiling that they share."""

    def __init__(self, *, bytes_max: int, overflowed: Callable[[], None]) -> None:
        """Call `overflowed` for each part that did not fit whole."""
        self.stdout = Stream()
        self.stderr = Stream()
        self._room = bytes_max
        self._overflowed = overflowed

    async def read(self, source: ByteReceiveStream, stream: "Stream") -> None:
        """Keep what arrives on one pipe, and count what does not fit, until it ends."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for part in source:
                kept = part[: self._room]
                self._room -= len(kept)
                stream.keep(kept, dropped_bytes=len(part) - len(kept))
                if len(kept) < len(part):
                    self._overflowed()

    @property
    def dropped_bytes(self) -> int:
        """How much did not fit."""
        return self.stdout.dropped_bytes + self.stderr.dropped_bytes


class Stream:
    """What was kept of one output stream."""

    def __init__(self) -> None:
        """Start empty."""
        self._parts = bytearray()
        self.dropped_bytes = 0

    def keep(self, part: bytes, *, dropped_bytes: int) -> None:
        """Append a part, and count what had to be left out after it."""
        self._parts += part
        self.dropped_bytes += dropped_bytes

    @property
    def kept(self) -> bytes:
        """What was kept, in the order of arrival."""
        return bytes(self._parts)


class Ending:
    """The first thing that ended a command; whatever follows changes nothing."""

    def __init__(self) -> None:
        """Start with the command running."""
        self.cause: EndCause | None = None
        self.error: EbpfError | None = None
        self._event = anyio.Event()

    def by(self, cause: EndCause) -> None:
        """Take note of what ended the command, unless something has."""
        if not self._event.is_set():
            self.cause = cause
            self._event.set()

    async def when(self, watch: Callable[[], Awaitable[EndCause]]) -> None:
        """End the command with what `watch` returns, or with its error."""
        try:
            self.by(await watch())
        except EbpfError as error:
            if not self._event.is_set():
                self.error = error
                self._event.set()

    async def wait(self) -> None:
        """Return when the command has been ended."""
        await self._event.wait()


async def supervise(
    launched: Launched,
    domain: Domain,
    *,
    stdin: bytes,
    limits: ExecutionLimits,
    pause: Pause,
    attached: Sequence[Attachment] = (),
    ladder: Ladder | None = None,
) -> tuple[EndCause, Captured]:
    """Return what ended the command and what it wrote; nothing of its tree is left then.

    Raises:
        EbpfError: the command never ran, or its domain failed.
    """
    ending = Ending()
    captured = Captured(
        bytes_max=limits.output_bytes, overflowed=lambda: ending.by(EndCause.OUTPUT)
    )
    process = launched.process
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    async def exited() -> EndCause:
        await launched.wait_for_command()
        return EndCause.EXITED

    async with anyio.create_task_group() as pipes:
        pipes.start_soon(_feed, process.stdin, stdin)
        async with anyio.create_task_group() as readers:
            readers.start_soon(captured.read, process.stdout, captured.stdout)
            readers.start_soon(captured.read, process.stderr, captured.stderr)
            async with anyio.create_task_group() as watchers:
                watchers.start_soon(ending.when, exited)
                watchers.start_soon(ending.when, lambda: domain.watch(limits))
                for one in attached:
                    watchers.start_soon(ending.when, one.exceeded)
                if ladder is not None:
                    watchers.start_soon(ending.when, ladder.climb)
                with pause.limit(wall_ms=limits.wall_ms):
                    await ending.wait()
                ending.by(EndCause.WALL)
                watchers.cancel_scope.cancel()
            # Not raised in here: a group of tasks would wrap it into an error of its own kind.
            try:
                await end_tree(launched, domain)
            except EbpfError as error:
                ending.error = ending.error or error
            readers.cancel_scope.deadline = anyio.current_time() + DRAIN_SECONDS_MAX
        pipes.cancel_scope.cancel()
    if ending.error is not None:
        raise ending.error
    assert ending.cause is not None
    return ending.cause, captured


async def end_tree(launched: Launched, domain: Domain) -> None:
    """Kill all that was started, in this order, because only a launcher enters a domain.

    Raises:
        DomainError: some process survived.
    """
    await launched.stop()
    await domain.kill()


async def empty(launched: Launched | None, domain: Domain) -> None:
    """Kill all that is in a domain, and give back the pipes to what was started, if anything was.

    Raises:
        DomainError: some process survived.
    """
    if launched is None:
        await domain.kill()
        return
    try:
        await end_tree(launched, domain)
    finally:
        await launched.aclose()


async def _feed(sink: ByteSendStream, stdin: bytes) -> None:
    """Write the whole input and close it; a command need not read it."""
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if stdin:
            await sink.send(stdin)
        await sink.aclose()


def final_cause(
    first: EndCause,
    *,
    measured: Measured,
    dropped_bytes: int,
    signal: int | None,
    attached: Sequence[Attachment] = (),
) -> EndCause:
    """Return what ended a command, once its last figures are known.

    A command may end in the moment between the kernel's kill, or its last byte, and our
    noticing: that it exited is then true, and not what ended it. Whoever was killed, where
    nobody could count the kernel's own kills, may have been killed by anybody.
    """
    if first is not EndCause.EXITED:
        return first
    if measured.killed_by is not None:
        return measured.killed_by
    if dropped_bytes:
        return EndCause.OUTPUT
    for one in attached:
        cause = one.ended_by()
        if cause is not None:
            return cause
    if signal == SIGKILL and measured.memory_kills is None:
        return EndCause.UNKNOWN
    return EndCause.EXITED if signal is None else EndCause.SIGNALLED

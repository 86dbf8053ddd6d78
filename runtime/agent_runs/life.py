"""One agent from the moment that it may start until nothing is left of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from signal import SIGKILL

import anyio

from ebpf.agents import Agent
from ebpf.command import EndCause
from ebpf.errors import EbpfError
from ebpf.executor import Measured
from governor.call import CallStatus
from governor.denial import DenialReason
from governor.slices import (
    WAIT_MS_MAX,
    may_go_on,
    next_slice_ms,
    used_up_words,
)
from governor.usage import Usage
from runtime.agent_runs.purse import Purse
from runtime.agent_runs.words import (
    GRACE_MS,
    Ended,
    Ending,
    FromSidecar,
    Standing,
    Told,
    Why,
)
from tool_gateway.running import Running

_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_MIB = 1024 * 1024
_PAUSED = "its session is paused; an administrator can resume it"

Say = Callable[[FromSidecar], Awaitable[None]]


@dataclass(slots=True)
class Over:
    """Why an agent must end, for whoever sits at it."""

    why: Why
    text: str
    status: CallStatus = CallStatus.CANCELLED
    denial: DenialReason | None = None


@dataclass(slots=True)
class Life:
    """Pays for an agent, lets it stand still, and ends it."""

    agent: Agent
    purse: Purse
    say: Say
    ended: Ended | None = None
    over: Over | None = None
    is_abandoned: bool = False
    _is_over: anyio.Event = field(default_factory=anyio.Event)
    _is_gone: anyio.Event = field(default_factory=anyio.Event)
    _why_still: str = ""
    _kills_told: int = 0

    def note_end(self, ended: Ended) -> None:
        """Note that it has ended by itself."""
        self.ended = ended
        self._is_gone.set()
        self._is_over.set()

    def abandon(self) -> None:
        """Note that its launcher is gone, and nobody waits for it any more."""
        self.is_abandoned = True
        self._is_gone.set()
        self._is_over.set()

    def stop(self, over: Over) -> None:
        """Note why it must end; the first cause stands."""
        if self.over is None:
            self.over = over
        self._is_over.set()

    async def live(self, running: Running) -> Usage:
        """Return what it was charged when nothing of it is left; its first slice is paid."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                tasks.start_soon(self._tell_standing)
                await self._pay_until_over(running)
                if self.over is not None and self.ended is None and not self.is_abandoned:
                    await self._give_grace(self.over)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                usage = await self._bury()
        return usage

    async def _pay_until_over(self, running: Running) -> None:
        with running.stoppable() as scope:
            with self.agent.pause.limit(wall_ms=self.purse.terms.limits.wall_ms) as wall:
                await self._pay()
            if wall.cancelled_caught:
                limit_s = self.purse.terms.limits.wall_ms / 1000
                self.stop(
                    Over(
                        why=Why.LIMIT,
                        text=f"its time limit of {limit_s:g} s is over",
                        status=CallStatus.TIMED_OUT,
                    )
                )
        if scope.cancelled_caught:
            self.stop(Over(why=Why.SESSION, text=running.stopped_why or "it was stopped"))

    async def _pay(self) -> None:
        """Settle and hold, slice by slice, until it is over."""
        slice_ms = self.purse.slice_ms
        while not self._is_over.is_set():
            with anyio.move_on_after(slice_ms / 1000):
                await self._is_over.wait()
                return
            await self.purse.settle(self._measured(), self.agent.isolated)
            slice_ms = await self._held(next_slice_ms(slice_ms))

    async def _held(self, slice_ms: int) -> int:
        """Hold the next slice, and return how long it is; an agent that is not paid stands."""
        denied = await self.purse.pay(slice_ms)
        waited_ms = 0
        was_denied = denied is not None
        while denied is not None:
            is_over = not may_go_on(denied) or waited_ms > WAIT_MS_MAX
            words = denied.remedy.text
            if is_over:
                words = used_up_words(denied, self.purse.terms.allowance)
            await self._stand_still(words)
            if is_over:
                is_closed = denied.reason is DenialReason.SESSION_CLOSED
                self.stop(
                    Over(
                        why=Why.SESSION if is_closed else Why.BUDGET,
                        text=words,
                        denial=denied.reason,
                    )
                )
                return slice_ms
            with anyio.move_on_after(_RETRY_SECONDS):
                await self._is_over.wait()
                return slice_ms
            if denied.reason is not DenialReason.SESSION_FROZEN:
                waited_ms += round(_RETRY_SECONDS * 1000)
            denied = await self.purse.pay(slice_ms)
        if was_denied:
            await self.agent.pause.thaw()
        return self.purse.slice_ms

    async def _stand_still(self, why: str) -> None:
        try:
            await self.agent.pause.freeze()
        except EbpfError as error:
            self.stop(Over(why=Why.FAILED, text=f"it could not be frozen: {error}"))
        self._why_still = why

    async def _watch(self) -> None:
        """End it by the limit that it exceeds."""
        killed: list[int] = []
        limits = self.purse.terms.limits

        async def tell() -> None:
            while True:
                await anyio.sleep(_LOOK_SECONDS)
                if killed:
                    self._kills_told = max(killed)
                    killed.clear()
                    await self.say(Told(text=_memory_words(limits.memory_bytes)))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tell)
                cause = await self.agent.watch(limits, told=killed.append)
                self.stop(_limit(cause, limits.memory_bytes, limits.pids))
                tasks.cancel_scope.cancel()
        except* EbpfError as group:
            first: BaseException = group
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            self.stop(Over(why=Why.FAILED, text=f"its domain failed: {first}"))

    async def _tell_standing(self) -> None:
        """Say when it stands still and when it goes on, whoever made it so."""
        was_frozen = False
        while True:
            is_frozen = self.agent.pause.is_frozen
            if is_frozen != was_frozen:
                was_frozen = is_frozen
                text = self._why_still or _PAUSED
                await self.say(Standing(is_frozen=is_frozen, text=text if is_frozen else ""))
                self._why_still = "" if not is_frozen else self._why_still
            await anyio.sleep(_LOOK_SECONDS)

    async def _give_grace(self, over: Over) -> None:
        """Let it end by itself for a moment, which is charged though nothing was held for it."""
        await self.say(Ending(why=over.why, text=over.text, grace_ms=GRACE_MS))
        try:
            await self.agent.pause.thaw()
        except EbpfError:
            return  # killed as it stands
        with anyio.move_on_after(GRACE_MS / 1000):
            await self._is_gone.wait()

    async def _bury(self) -> Usage:
        """Kill what is left, then read the figures and end what is held."""
        try:
            await self.agent.kill()
        except EbpfError as error:
            self.stop(Over(why=Why.FAILED, text=str(error)))
        measured = self._measured()
        if measured is not None:
            await self._say_what_was_missed(measured)
        over, ended = self.over, self.ended
        if over is not None:
            status, detail = over.status, f"ended: {over.text}"
        elif ended is None:
            status, detail = CallStatus.CANCELLED, "its launcher went away"
        elif ended.signal is not None:
            status, detail = CallStatus.TOOL_ERROR, f"ended by signal {ended.signal}"
        else:
            status = CallStatus.TOOL_ERROR if ended.code else CallStatus.OK
            detail = f"exit code {ended.code}"
        return await self.purse.close(
            measured,
            status=status,
            detail=detail,
            isolated=self.agent.isolated,
            denial=None if over is None else over.denial,
        )

    async def _say_what_was_missed(self, measured: Measured) -> None:
        """Say which limit the agent met, if it ended before anybody looked.

        The kernel kills and refuses at once, and an agent may be gone with it.
        """
        limits = self.purse.terms.limits
        if self.over is None and self.ended is not None and measured.memory_kills:
            if self.ended.signal == SIGKILL:
                cause = measured.killed_by or EndCause.UNKNOWN
                over = _limit(cause, limits.memory_bytes, limits.pids)
                self.stop(over)
                await self.say(Ending(why=over.why, text=over.text, grace_ms=0))
            elif measured.memory_kills > self._kills_told:
                await self.say(Told(text=_memory_words(limits.memory_bytes)))
        if measured.pids_limit_hits:
            await self.say(Told(text=_refused_words(measured.pids_limit_hits, limits.pids)))

    def _measured(self) -> Measured | None:
        try:
            return self.agent.measure()
        except EbpfError:
            return None


def _memory_words(memory_bytes: int | None) -> str:
    limit = "" if memory_bytes is None else f" of {memory_bytes // _MIB} MiB"
    return f"the kernel killed a process of the agent at its memory limit{limit}"


def _refused_words(times: int, pids: int | None) -> str:
    refused = "1 process start was" if times == 1 else f"{times} process starts were"
    return f"{refused} refused by a limit on processes; the agent's own is {pids or 'none'}"


def _limit(cause: EndCause, memory_bytes: int | None, pids: int | None) -> Over:
    match cause:
        case EndCause.MEMORY:
            text = f"it went over its memory limit of {(memory_bytes or 0) // _MIB} MiB"
        case EndCause.SESSION_MEMORY | EndCause.TENANT_MEMORY | EndCause.HOST_MEMORY:
            text = f"memory ran short beyond its own limit ({cause.value})"
        case EndCause.EGRESS:
            text = "it sent all that its rule lets it send (egress_bytes)"
        case EndCause.PIDS:
            text = f"it started more than {pids} processes"
        case _:
            text = f"it went over a limit of the machine ({cause.value})"
    return Over(why=Why.LIMIT, text=text, status=CallStatus.LIMIT_HIT)

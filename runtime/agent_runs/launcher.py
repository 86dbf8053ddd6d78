"""Starting an agent at one's own terminal, as the sidecar says where and for how long."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ebpf.agents import agent_argv
from ebpf.domains.domain import Entry
from runtime.agent_runs.terminal import is_foreground, kept_terminal
from runtime.agent_runs.words import (
    LINE_BYTES_MAX,
    SOCKET_BYTES_MAX,
    Begin,
    Ended,
    Ending,
    FromLauncher,
    FromSidecar,
    Ready,
    Refused,
    Settled,
    Standing,
    Started,
    Told,
    Why,
    heard_from_sidecar,
    line_of,
    socket_in,
)
from runtime.errors import RuntimeFaultError

# The agent's own status is passed on; these say that it was not the agent who ended it.
EXIT_BUDGET = 120
EXIT_SESSION = 121
EXIT_LIMIT = 122
EXIT_SIDECAR = 123
_STATUSES = {
    Why.BUDGET: EXIT_BUDGET,
    Why.SESSION: EXIT_SESSION,
    Why.LIMIT: EXIT_LIMIT,
    Why.FAILED: EXIT_SIDECAR,
}
_BY_SIGNAL = 128
# Passed on, since whoever sends one means the agent. What the terminal sends it hears itself.
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
SETTLE_SECONDS_MAX = 30.0

Tell = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How an agent's run went; `status` is for whoever asked for it."""

    run: str
    session_id: str
    status: int
    exit_code: int | None = None
    signal: int | None = None
    ended_by: str | None = None
    text: str = ""
    settled: Settled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What an agent is started with: its command, and its whole environment."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


class RefusedRunError(RuntimeFaultError):
    """The sidecar refuses to have the agent started."""


async def run_agent(
    begin: Begin,
    *,
    state: Path,
    started_as: Callable[[Ready], Start],
    tell: Tell,
) -> Outcome:
    """Return how the agent's run went when nothing of it is left.

    Raises:
        RuntimeFaultError: no sidecar is there.
        RefusedRunError: it refuses.
    """
    path = socket_in(state)
    try:
        stream = await anyio.connect_unix(path)
    except OSError as error:
        if len(os.fsencode(path)) > SOCKET_BYTES_MAX:
            raise RuntimeFaultError(
                f"{path} is longer than a socket's path can be ({SOCKET_BYTES_MAX} bytes): give "
                "`flyball up` and `flyball run` a shorter --state"
            ) from error
        raise RuntimeFaultError(
            f"no sidecar hears agents at {path}: start one with `flyball up`, with "
            "the same --config and --state"
        ) from error
    async with stream:
        link = _Link(stream)
        await link.say(begin)
        ready = await link.heard()
        if isinstance(ready, Refused):
            raise RefusedRunError(f"the agent was not started: {ready.text}")
        if not isinstance(ready, Ready):
            raise RuntimeFaultError("the sidecar went away before the agent was started")
        for sentence in _isolation_words(ready):
            tell(sentence)
        with kept_terminal():
            return await _Run(link, ready, tell).lived(started_as(ready))


@dataclass(slots=True)
class _Run:
    link: "_Link"
    ready: Ready
    tell: Tell
    ending: Ending | None = None
    settled: Settled | None = None
    is_frozen: bool = False
    is_alone: bool = False
    _settled: anyio.Event = field(default_factory=anyio.Event)

    async def lived(self, start: Start) -> Outcome:
        ready = self.ready
        argv = agent_argv(
            start.command,
            Entry(join=ready.join, rlimits=ready.rlimits, marker=ready.marker),
            account=ready.account,
            carve=ready.carve,
        )
        with anyio.open_signal_receiver(*_PASSED_ON, *_FROM_TERMINAL) as signals:
            # In this thread, which lasts: the kernel ends the agent with the thread that starts it.
            process = subprocess.Popen(argv, env=dict(start.environment))  # noqa: ASYNC220, S603
            await self.link.say(Started(pid=process.pid))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._hear, process)
                tasks.start_soon(self._pass_on, signals, process)
                status = await _ended(process)
                code, number = (None, -status) if status < 0 else (status, None)
                await self.link.say(Ended(code=code, signal=number))
                with anyio.move_on_after(SETTLE_SECONDS_MAX):
                    await self._settled.wait()
                tasks.cancel_scope.cancel()
        return self._outcome(code, number)

    def _outcome(self, code: int | None, number: int | None) -> Outcome:
        own = code if number is None else _BY_SIGNAL + number
        outcome = Outcome(
            run=self.ready.run,
            session_id=self.ready.session_id,
            status=own or 0,
            exit_code=code,
            signal=number,
            settled=self.settled,
        )
        if self.ending is not None:
            outcome.status = _STATUSES[self.ending.why]
            outcome.ended_by, outcome.text = self.ending.why.value, self.ending.text
        elif self.is_alone:
            outcome.status = EXIT_SIDECAR
            outcome.ended_by, outcome.text = "sidecar", "the sidecar went away"
        return outcome

    async def _hear(self, process: "subprocess.Popen[bytes]") -> None:
        """Do as the sidecar says; without it the agent may not go on."""
        while (said := await self.link.heard()) is not None:
            match said:
                case Told(text=text):
                    self.tell(text)
                case Standing(is_frozen=is_frozen, text=text):
                    self.is_frozen = is_frozen
                    self.tell(f"the agent stands still: {text}" if is_frozen else "it goes on")
                case Ending(text=text):
                    self.ending = said
                    self.tell(f"the agent is ended: {text}")
                    _send(process, signal.SIGTERM)
                case Settled():
                    self.settled = said
                    self._settled.set()
                    return
                case _:
                    """Nothing else is said while an agent runs."""
        if process.poll() is None:
            self.is_alone = True
            self.tell("the sidecar went away, and the agent is ended with it")
            process.kill()
        self._settled.set()

    async def _pass_on(
        self, signals: AsyncIterator[signal.Signals], process: "subprocess.Popen[bytes]"
    ) -> None:
        async for number in signals:
            if number in _FROM_TERMINAL and is_foreground():
                if not self.is_frozen:
                    continue  # the agent has heard it too
                # What stands still hears nothing, and whoever sits there wants it to end.
                self.tell("the agent is ended, since it stands still")
                process.kill()
            _send(process, number)


class _Link:
    """The lines of the sidecar."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)

    async def say(self, said: FromLauncher) -> None:
        """Tell it something; one that is gone is noticed by who listens."""
        try:
            await self._stream.send(line_of(said))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    async def heard(self) -> FromSidecar | None:
        """Return what it says next, None when it is gone."""
        try:
            return heard_from_sidecar(await self._lines.receive_until(b"\n", LINE_BYTES_MAX))
        except (
            anyio.EndOfStream,
            anyio.IncompleteRead,
            anyio.DelimiterNotFound,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
            msgspec.MsgspecError,
        ):
            return None


async def _ended(process: "subprocess.Popen[bytes]") -> int:
    """Return the process's status; it is waited for in a thread, which ends with it."""
    return await anyio.to_thread.run_sync(process.wait)


def _send(process: "subprocess.Popen[bytes]", number: int) -> None:
    if process.poll() is None:
        process.send_signal(number)


def _isolation_words(ready: Ready) -> list[str]:
    """Return what whoever starts an agent should know of its fence, where something is missing."""
    found = []
    is_limited = ready.enforcement == "enforced"
    if not is_limited:
        found.append(f"its limits are only {ready.enforcement}: {ready.why}")
    if not ready.contained:
        # The reasons are those of both, and one reading of them is enough.
        why = f": {ready.why or ready.by}" if is_limited else ""
        found.append(f"it is not kept from the sidecar's files{why}")
    if ready.account is None and os.geteuid() == 0:
        found.append("it runs as root and could leave its domain; --user NAME runs it as another")
    return found


def complain(text: str) -> None:
    """Tell whoever sits at the terminal."""
    sys.stderr.write(f"flyball: {text}\n")
    sys.stderr.flush()

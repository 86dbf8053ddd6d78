"""One probe in the kernel: its compiler's process, its counts and what attaches to groups."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import TypedDict, cast

import anyio
from anyio.abc import ByteReceiveStream, Process

from ebpf.custom.shelf import Probe
from ebpf.errors import ProbeError
from ebpf.probe.libbpf import libbpf
from ebpf.probe.maps import Map
from ebpf.probe.shared import hang_program, shared_map

# The system's own interpreter is where distributions install bcc; ours does not see it.
INTERPRETER = Path("/usr/bin/python3")
_COMPILER = Path(__file__).resolve().parent / "compiler.py"
COMPILE_SECONDS_MAX = 120.0
END_SECONDS_MAX = 5.0
_ANSWER_BYTES_MAX = 64 * 1024
_COMPLAINT_CHARS_MAX = 2_000


class _Answer(TypedDict):
    """What the compiler says once a probe is in the kernel: numbers of its map and programs."""

    counts: int
    programs: dict[str, int]
    headers: str


@dataclass(slots=True, kw_only=True)
class RunningProbe:
    """A probe that counts; it does so until `stop`, or until this process ends."""

    probe: Probe
    headers: str
    counts: Map
    programs: Mapping[str, int]
    process: Process

    @property
    def is_alive(self) -> bool:
        """Tell whether what holds its tracepoints is still there."""
        return self.process.returncode is None

    def hang(self, group: Path) -> None:
        """Attach to a group what counts packets, if it has such a part.

        Raises:
            ProbeError: the kernel refused.
        """
        for name, program in self.programs.items():
            hang_program(libbpf(), f"{self.probe.name} ({name})", program, group, kind=name)

    async def stop(self) -> None:
        """Take it out of the kernel."""
        await _end(self.process)
        os.close(self.counts.fd)


async def start_probe(probe: Probe, *, interpreter: Path = INTERPRETER) -> RunningProbe:
    """Return a probe that was compiled and counts from now on.

    Raises:
        ProbeError: there is no bcc, or it cannot be compiled, loaded or attached.
    """
    try:
        process = await anyio.open_process(
            [str(interpreter), "-I", str(_COMPILER)], stdin=PIPE, stdout=PIPE, stderr=PIPE, env={}
        )
    except OSError as error:
        raise ProbeError(
            f"{interpreter} cannot be started, and bcc is installed for it; on Debian: "
            "apt install python3-bpfcc"
        ) from error
    try:
        answer = await _answer(process, probe)
        return RunningProbe(
            probe=probe,
            headers=answer["headers"],
            counts=shared_map(libbpf(), probe.name, answer["counts"]),
            programs=answer["programs"],
            process=process,
        )
    except BaseException:
        await _end(process)
        raise


async def _answer(process: Process, probe: Probe) -> _Answer:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    request = json.dumps({"source": probe.source, "headers": probe.headers})
    with anyio.move_on_after(COMPILE_SECONDS_MAX):
        try:
            await process.stdin.send(request.encode() + b"\n")
            said = await _line(process.stdout)
        except (anyio.BrokenResourceError, OSError):
            said = b""
        refused = "the compiler ended without an answer"
        with suppress(ValueError):
            answer: _Answer | dict[str, str] = json.loads(said)
            if "counts" in answer:
                return cast("_Answer", answer)
            refused = answer["error"]
        complaint = await _rest(process.stderr)
        raise ProbeError("\n".join(filter(None, (f"{probe.name}: {refused}", complaint))))
    raise ProbeError(f"{probe.name} was not compiled within {COMPILE_SECONDS_MAX:.0f} s")


async def _line(source: ByteReceiveStream) -> bytes:
    said = b""
    while not said.endswith(b"\n") and len(said) < _ANSWER_BYTES_MAX:
        try:
            said += await source.receive()
        except anyio.EndOfStream:
            break
    return said


async def _rest(source: ByteReceiveStream) -> str:
    """Return what else was said, as far as somebody would read it."""
    said = b""
    async for part in source:
        said = (said + part)[:_ANSWER_BYTES_MAX]
    return said.decode(errors="replace").strip()[:_COMPLAINT_CHARS_MAX]


async def _end(process: Process) -> None:
    assert process.stdin is not None
    with anyio.CancelScope(shield=True):
        await process.stdin.aclose()
        with anyio.move_on_after(END_SECONDS_MAX):
            await process.wait()
        if process.returncode is None:
            process.kill()
        await process.aclose()

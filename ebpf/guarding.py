"""Having a small process outlive the sidecar, to end what the sidecar leaves."""

import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import Process

from ebpf.errors import LaunchError
from ebpf.launcher.warden import READY

logger = logging.getLogger(__name__)

START_SECONDS_MAX = 20.0
END_SECONDS_MAX = 20.0
# Somebody who kills wardens must not make the sidecar do nothing else than start them.
PAUSE_SECONDS = 1.0

_BOOT = "import sys; sys.path.append(sys.argv[1]); from ebpf.launcher.warden import main; main()"
_ROOT = str(Path(__file__).resolve().parent.parent)


@asynccontextmanager
async def guarded(groups: Sequence[Path]) -> AsyncIterator[None]:
    """Have all that is in the groups killed when this process ends, however it ends.

    `groups` need not exist yet; the last is that of the v2 hierarchy. What is in them at the
    end of the block is killed as well.

    Raises:
        LaunchError: the warden cannot be started.
    """
    warden = await _started(groups)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_replaced_when_killed, warden, groups, name="warden")
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _replaced_when_killed(warden: Process, groups: Sequence[Path]) -> None:
    """Keep a warden; dismiss it when this is cancelled."""
    while True:
        try:
            code = await warden.wait()
        except BaseException:
            await _dismiss(warden)
            raise
        await warden.aclose()
        logger.warning("the warden was ended (%d) and is started again", code)
        await anyio.sleep(PAUSE_SECONDS)
        warden = await _started(groups)


async def _started(groups: Sequence[Path]) -> Process:
    """Return a warden that watches already."""
    boot = (sys.executable, "-I", "-S", "-B", "-c", _BOOT, _ROOT)
    try:
        warden = await anyio.open_process(
            (*boot, str(os.getpid()), *map(str, groups)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd="/",
            env={},
            # What a terminal sends to the sidecar's group is not meant for it.
            start_new_session=True,
        )
    except OSError as error:
        message = "the warden cannot be started"
        raise LaunchError(message) from error
    assert warden.stdout is not None
    said = b""
    try:
        with anyio.move_on_after(START_SECONDS_MAX), suppress(anyio.EndOfStream):
            said = await warden.stdout.receive(1)
    finally:
        if said != READY:
            warden.kill()
            with anyio.CancelScope(shield=True):
                await warden.aclose()
    if said != READY:
        message = "the warden did not begin to watch"
        raise LaunchError(message)
    return warden


async def _dismiss(warden: Process) -> None:
    """Let the warden end by itself, once nothing is left in its groups."""
    assert warden.stdin is not None
    with anyio.CancelScope(shield=True):
        await warden.stdin.aclose()
        with anyio.move_on_after(END_SECONDS_MAX):
            await warden.wait()
        if warden.returncode is None:
            warden.kill()  # what it could not end, the next start sweeps
        await warden.aclose()

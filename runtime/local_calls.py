"""What runs the local commands of calls on a sidecar's ground."""

import tempfile
from contextlib import AsyncExitStack

from ebpf.capability import Host
from ebpf.executor import LocalExecutor
from runtime.configuration.ladder import ladder_terms_of
from runtime.ground import Ground
from runtime.isolating import isolating, isolator_of, room_of
from runtime.local_commands import LocalCommands, RoomFor, always_room
from runtime.machine import shares_of


def local_commands_of(ground: Ground, executor: LocalExecutor, room: RoomFor) -> LocalCommands:
    """Return what runs local commands, each on the ladder that is in force when it begins.

    They wait for `room` before they do.
    """
    terms = ground.config.local
    return LocalCommands(
        executor,
        workdir=terms.workdir or tempfile.gettempdir(),
        at_once_max=max(1, terms.at_once_max // ground.seat.workers),
        is_frozen=ground.running.is_frozen,
        milliwatts_per_core=ground.policy.milliwatts_per_core,
        shares=shares_of(terms),
        room=room,
        ladder=lambda: ladder_terms_of(ground.config.ladder),
        asker=ground.memory,
    )


async def room_on(
    stack: AsyncExitStack, ground: Ground, host: Host, executor: LocalExecutor
) -> RoomFor:
    """Return where commands wait for room, which is looked after until the stack is closed."""
    isolator = isolator_of(
        ground.config.local, host=host, executor=executor, elapsed_ms=ground.clock.elapsed_ms
    )
    if isolator is None:
        return always_room
    await stack.enter_async_context(isolating(isolator))
    return room_of(isolator)

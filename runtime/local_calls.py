"""What runs the local commands of calls on a sidecar's ground."""

import tempfile

from ebpf.executor import LocalExecutor
from runtime.configuration.ladder import ladder_terms_of
from runtime.energy import energy_source
from runtime.ground import Ground
from runtime.local_commands import LocalCommands, RoomFor
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
        energy=energy_source(ground.policy.milliwatts_per_core, ground.clock.elapsed_ms),
        shares=shares_of(terms),
        room=room,
        ladder=lambda: ladder_terms_of(ground.config.ladder),
        asker=ground.memory,
    )

"""What this host measures of no command and of no server, with the reasons."""

from collections.abc import Iterable, Mapping

from ebpf.attachment import Attacher
from ebpf.capability import CapabilityState, Host
from governor.amounts import Unit
from governor.usage import OF_PROBES, OF_THE_MACHINE

NO_EGRESS = "nothing here counts what a command sends"

_NO_SERVERS = "this host has no control groups, and servers are not sampled without them"
_NO_PROBE = (
    "no probe that runs is assigned to it; `flyball probe add FILE --unit UNIT` assigns one, and "
    "`flyball probe list` shows them"
)
_TOO_SHORT = "it ended before the first sample"
_OF_COMMANDS_ALONE = {
    Unit.EGRESS_BYTES: NO_EGRESS,
    **dict.fromkeys(OF_PROBES, "probes count what local commands do, not servers"),
}
_NOT_SEEN = {
    Unit.EGRESS_BYTES: NO_EGRESS,
    **dict.fromkeys(OF_PROBES, "its probe began or ended while the command ran"),
}


def units_of(attachers: Iterable[Attacher]) -> frozenset[Unit]:
    """Return what these measure of every command that starts now."""
    return frozenset[Unit]().union(*(one.measures for one in attachers))


def unseen_of_commands(host: Host, attachers: Iterable[Attacher]) -> Mapping[Unit, str]:
    """Return the units that are measured of no command that starts now."""
    measured, probes = units_of(attachers), host.capability("probes")
    why = _NO_PROBE if probes.state is CapabilityState.ENFORCED else probes.why
    unseen = {unit: why for unit in OF_PROBES if unit not in measured}
    egress = host.capability("egress_bytes")
    if egress.state is not CapabilityState.ENFORCED:
        unseen[Unit.EGRESS_BYTES] = egress.why
    return {**unseen, **_without_io(host)}


def unseen_of_servers(host: Host, *, has_groups: bool) -> Mapping[Unit, str]:
    """Return the units that are measured of no server."""
    if not has_groups:
        return dict.fromkeys((*OF_THE_MACHINE, *OF_PROBES), _NO_SERVERS)
    return {**_OF_COMMANDS_ALONE, **_without_io(host)}


def why_not_seen(unit: Unit) -> str:
    """Return why a unit that can be measured was not of one command."""
    return _NOT_SEEN.get(unit, _TOO_SHORT)


def _without_io(host: Host) -> dict[Unit, str]:
    io = host.capability("io_bytes")
    return {Unit.IO_BYTES: io.why} if io.state is CapabilityState.ABSENT else {}

"""What a model is told of what its command tried against its rule, and how to ask for more."""

from collections.abc import Sequence

from governor.confines import Confines, Destination, Devices

_DESTINATIONS_TOLD = 8
_PATHS_TOLD = 8


def refusal_words(refused: Sequence[str], confines: Confines) -> str:
    """Return what was refused, what is allowed and who can change it; empty if nothing was."""
    if not refused:
        return ""
    total, *tried = refused
    # Once nothing is remembered of the places, there is still how often it was.
    told = f"{total}: {'; '.join(tried)}" if tried else total
    return f"{told}. {_allowed(confines)}"


def _allowed(confines: Confines) -> str:
    said = []
    if confines.network is not None:
        listed = [_place_words(destination) for destination in confines.network]
        shown = ", ".join(listed[:_DESTINATIONS_TOLD]) or "nothing of the network"
        more = len(listed) - _DESTINATIONS_TOLD
        said.append(f"It may reach {shown}{f' and {more} more' if more > 0 else ''}.")
    if confines.devices is Devices.STANDARD:
        said.append("It may open the standard devices alone.")
    for what, paths in (
        ("It may not read or change", confines.hidden),
        ("It may read and not change", confines.read_only),
        ("It may start no program in", confines.no_exec_from),
    ):
        if paths:
            said.append(f"{what} {', '.join(paths[:_PATHS_TOLD])}{_and_more(paths)}.")
    said.append("An administrator can change that in the rule (network, files, devices)")
    return " ".join(said)


def _and_more(paths: Sequence[str]) -> str:
    more = len(paths) - _PATHS_TOLD
    return f" and {more} more" if more > 0 else ""


def _place_words(destination: Destination) -> str:
    """Return a destination; a single address is said without the size of its network."""
    network = destination.network
    if network is None or network.num_addresses > 1:
        return str(destination)
    port = "*" if destination.port is None else destination.port
    address = network.network_address
    return f"[{address}]:{port}" if network.version == 6 else f"{address}:{port}"  # noqa: PLR2004

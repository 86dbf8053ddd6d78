"""What a model is told of what its command tried against its rule, and how to ask for more."""

from collections.abc import Sequence

from governor.confines import Confines, Devices

_DESTINATIONS_TOLD = 8


def refusal_words(refused: Sequence[str], confines: Confines) -> str:
    """Return what was refused, what is allowed and who can change it; empty if nothing was."""
    if not refused:
        return ""
    total, *tried = refused
    # Once nothing is remembered of the places, there is still how often it was.
    told = f"{total}: {'; '.join(tried)}" if tried else total
    return f"{told}. {_allowed(confines)}"


def _allowed(confines: Confines) -> str:
    parts = []
    if confines.network is not None:
        listed = [str(destination) for destination in confines.network]
        shown = ", ".join(listed[:_DESTINATIONS_TOLD]) or "nothing of the network"
        more = len(listed) - _DESTINATIONS_TOLD
        parts.append(f"reach {shown}{f' and {more} more' if more > 0 else ''}")
    if confines.devices is Devices.STANDARD:
        parts.append("open the standard devices alone")
    if confines.paths:
        parts.append(f"not have all of {', '.join(confines.paths[:_DESTINATIONS_TOLD])}")
    allowed = f"It may {' and '.join(parts)}"
    return f"{allowed}; an administrator can change that in the rule (network, files, devices)"

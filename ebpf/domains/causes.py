"""Which limit it was: decided from what the kernel counted, never from how a command ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from ebpf.command import EndCause, Level, Victim

LEVELS = tuple(Level)

_MEMORY_CAUSES = {
    Level.CALL: EndCause.MEMORY,
    Level.SESSION: EndCause.SESSION_MEMORY,
    Level.TENANT: EndCause.TENANT_MEMORY,
    Level.MACHINE: EndCause.HOST_MEMORY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvidence:
    """What was counted while a call ran; None was not to be read.

    `kills` are the call's own processes that the kernel killed for want of memory, `shortages`
    how often each level's limit left it nothing else to do, for whichever process.
    """

    kills: int | None
    shortages: Mapping[Level, int | None]
    victim: Victim | None = None


def memory_cause(evidence: MemoryEvidence) -> EndCause | None:
    """Return whose limit had a process of the call killed; None where none was killed.

    The kernel's own word comes first. A call's own limit kills inside the call, so its count
    settles the matter; a wider one also counts what it did to others, so that two wider ones
    say nothing. Where no limit was short, the machine itself was.
    """
    if not evidence.kills:
        return None
    if evidence.victim is not None and evidence.victim.level is not None:
        return _MEMORY_CAUSES[evidence.victim.level]
    counts = [evidence.shortages.get(level, 0) for level in LEVELS]
    if counts[0]:
        return EndCause.MEMORY
    short = [level for level, count in zip(LEVELS, counts, strict=True) if count]
    if None in counts or len(short) > 1:
        return EndCause.UNKNOWN
    return _MEMORY_CAUSES[short[0]] if short else EndCause.HOST_MEMORY


def counted_refusals(
    counts: Mapping[Level, int | None],
) -> tuple[int, Level | None] | None:
    """Return the refused forks and whose limit refused them, where each level counts its own.

    A wider level counts the forks of others with those of the call, so it is asked only where
    the call's own limit refused none. None where some level does not count.
    """
    found = [(level, counts.get(level, 0)) for level in LEVELS[:-1]]
    if any(count is None for _, count in found):
        return None
    for level, count in found:
        if count:
            return count, level
    return 0, None


def pids_level(*, refusals: int | None, full: Mapping[Level, bool | None]) -> Level | None:
    """Return whose limit refused a call's forks; None where none did, or nobody can tell.

    `full` says of each level whether it ever held as many processes as it may. A refusal needs
    a full level; where none was, the machine refused.
    """
    if not refusals:
        return None
    states = [full.get(level, False) for level in LEVELS[:-1]]
    found = [level for level, is_full in zip(LEVELS, states, strict=False) if is_full]
    if len(found) == 1 and None not in states:
        return found[0]
    if found or None in states:
        return None
    return Level.MACHINE

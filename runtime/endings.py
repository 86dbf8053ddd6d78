"""How a local command ended, in words for a model: the limit, the peak, who, and ways on."""

from collections.abc import Mapping
from typing import Literal

from ebpf.command import CommandResult, EndCause, Level
from governor.amounts import Unit
from governor.ladder import Rung
from governor.limits import UNLIMITED, ExecutionLimits, SharedLimits
from governor.raising import Story
from runtime.confinement_words import refusal_words

_MIB = 1024 * 1024
_WHOSE = {
    Level.SESSION: "all calls of this session together",
    Level.TENANT: "all calls of this tenant together",
}

_TRIED = {
    Rung.THROTTLED: "it was slowed down",
    Rung.ASKING: "it was frozen",
    Rung.SPENT: "it was let run on, without more memory, until its limit ended it",
}

# What all calls of a session, and of a tenant, may have together.
Shares = Mapping[Level, SharedLimits]


def explanation_of(
    ended: CommandResult, limits: ExecutionLimits, shares: Shares | None = None
) -> str:
    """Return what a model needs to know about how a command ended; empty if it went well."""
    said = _how(ended, limits, shares or {})
    hint = _refusals(ended, limits, shares or {})
    tried = refusal_words(ended.refused, limits.confines)
    return "; ".join(part for part in (said, hint, tried) if part)


def _how(ended: CommandResult, limits: ExecutionLimits, shares: Shares) -> str:
    match ended.cause:
        case EndCause.EXITED:
            return f"exit code {ended.exit_code}" if ended.exit_code else ""
        case EndCause.MEMORY | EndCause.STUCK:
            return _over_own_memory(ended, limits)
        case EndCause.SESSION_MEMORY | EndCause.TENANT_MEMORY as cause:
            return _over_shared_memory(cause, shares, _seen(ended))
        case EndCause.HOST_MEMORY | EndCause.UNKNOWN | EndCause.SIGNALLED as cause:
            return _from_outside(cause, ended)
        case EndCause.EGRESS | EndCause.PROBE as cause:
            return _over_counted(cause, ended, limits)
        case EndCause.PIDS | EndCause.CPU | EndCause.WALL | EndCause.OUTPUT as cause:
            return _over_limit(cause, limits, _seen(ended))


def _over_counted(
    cause: Literal[EndCause.EGRESS, EndCause.PROBE], ended: CommandResult, limits: ExecutionLimits
) -> str:
    if cause is EndCause.EGRESS:
        return _egress_explanation(ended, limits)
    return (
        f"killed: a probe counted more than its rule allows ({'; '.join(ended.notes)}). "
        "Do less of it in one call; an administrator can raise probe_limits in the rule"
    )


def _from_outside(
    cause: Literal[EndCause.HOST_MEMORY, EndCause.UNKNOWN, EndCause.SIGNALLED],
    ended: CommandResult,
) -> str:
    seen = _seen(ended)
    match cause:
        case EndCause.HOST_MEMORY:
            return (
                "killed by the kernel, because the whole machine, or the container around "
                f"Flyball, ran out of memory{seen}; no limit of this call was reached. Try again "
                "when less is running, or work on less at a time"
            )
        case EndCause.SIGNALLED:
            return (
                f"ended by signal {ended.signal}{seen}, which no limit sent. Look for the reason "
                "in its output, or run it in smaller steps"
            )
        case EndCause.UNKNOWN:
            return (
                f"killed{seen}, and nothing that was counted says by whom: this may have been a "
                "shortage of memory. Try it once more, or work on less at a time"
            )


def _over_limit(
    cause: Literal[EndCause.PIDS, EndCause.CPU, EndCause.WALL, EndCause.OUTPUT],
    limits: ExecutionLimits,
    seen: str,
) -> str:
    match cause:
        case EndCause.PIDS:
            return (
                f"killed: it started more than {limits.pids} processes. Start fewer at a time, or "
                "one after the other; an administrator can raise pids in the rule"
            )
        case EndCause.CPU:
            return (
                f"killed: it used up its {limits.cpu_ms} ms of processor time{seen}. Do less in "
                "one call, or split the work"
            )
        case EndCause.WALL:
            return (
                f"killed after {limits.wall_ms} ms, its time limit{seen}. Do less in one call, "
                "split the work, or check whether it waits for input"
            )
        case EndCause.OUTPUT:
            return (
                f"killed: it wrote more than {limits.output_bytes} bytes. Filter the output, or "
                "write it to a file and read parts of it"
            )


def _over_own_memory(ended: CommandResult, limits: ExecutionLimits) -> str:
    """Return what a model needs to know about a command that had not enough memory."""
    story = ended.story
    limit_bytes = limits.memory_bytes if story is None else story.limit_bytes
    why = "made no progress within" if ended.cause is EndCause.STUCK else "went over"
    return (
        f"killed: it {why} its memory limit of {_mib(limit_bytes)} MiB{_seen(ended)}"
        f"{_climb(story)}. Nothing else was harmed. Work on less at a time, or read and write in a "
        f"stream; {_way_to_more(limits, story)}"
    )


def _climb(story: Story | None) -> str:
    """Return which process held the most and what was tried, as the middle of a sentence."""
    if story is None:
        return ""
    words = []
    if story.culprit is not None:
        culprit = story.culprit
        held = f"{culprit.name} (process {culprit.pid}) held {_mib(culprit.rss_bytes)} MiB"
        words.append(f"{held} when last looked at")
    words += [said for rung, said in _TRIED.items() if rung in story.path]
    if story.raises:
        times = "once" if story.raises == 1 else f"{story.raises} times"
        words.append(f"it was given more memory {times}")
    return "".join(f"; {part}" for part in (*words, *story.said))


def _way_to_more(limits: ExecutionLimits, story: Story | None) -> str:
    """Return how a call gets more memory than this one had."""
    if story is not None and story.was_turned_down:
        # Whoever said no, or nothing, is not to be gone around by a larger declaration.
        return "more was not granted, so tell the user if it cannot do with this"
    ceiling, given = limits.memory_ceiling_bytes, limits.memory_bytes
    if ceiling is None or given is None or ceiling <= given:
        return "an administrator can raise memory_mib in the rule"
    return (
        f'or call it again with resources = {{"memory_mib": N}}, where N is up to {_mib(ceiling)}'
    )


def _over_shared_memory(
    cause: Literal[EndCause.SESSION_MEMORY, EndCause.TENANT_MEMORY], shares: Shares, seen: str
) -> str:
    level = Level.SESSION if cause is EndCause.SESSION_MEMORY else Level.TENANT
    most = shares.get(level, UNLIMITED).memory_bytes
    return (
        f"killed: {_WHOSE[level]} went over their memory limit of {_mib(most)} MiB{seen}. "
        "Run fewer commands at the same time, or work on less in this one; an administrator can "
        f"raise memory_mib in [local.{level}]"
    )


def _egress_explanation(ended: CommandResult, limits: ExecutionLimits) -> str:
    """Return what a model needs to know about a command that sent too much."""
    sent = ended.attached.get(Unit.EGRESS_BYTES, 0)
    told = f" ({'; '.join(ended.notes)})" if ended.notes else ""
    return (
        f"killed: it sent {sent} of the {limits.egress_bytes or 0} bytes that it may send, and "
        f"what went beyond was dropped{told}. Send less in one call, compressed or in parts, or "
        "keep it on this machine; an administrator can raise egress_bytes in the rule"
    )


def _seen(ended: CommandResult) -> str:
    """Return in brackets what is known of the command's memory, and whom the kernel chose."""
    parts = []
    if ended.memory_peak_bytes is not None:
        parts.append(f"peak {ended.memory_peak_bytes / _MIB:.1f} MiB")
    if ended.victim is not None:
        parts.append(f"the kernel chose process {ended.victim.pid}, {ended.victim.comm}")
    return f" ({'; '.join(parts)})" if parts else ""


def _refusals(ended: CommandResult, limits: ExecutionLimits, shares: Shares) -> str:
    if not ended.pids_limit_hits:
        return ""
    hits = ended.pids_limit_hits
    refused = "1 process start was refused" if hits == 1 else f"{hits} process starts were refused"
    match ended.pids_refused_by:
        case Level.CALL:
            return f"{refused} by the limit of {limits.pids}"
        case Level.SESSION | Level.TENANT as level:
            most = shares.get(level, UNLIMITED).pids
            return f"{refused} by the limit of {most} for {_WHOSE[level]}"
        case Level.MACHINE:
            return f"{refused} by the machine, not by a limit of this call"
        case None:
            return f"{refused} by a limit on processes; this call's own is {limits.pids}"


def _mib(size: int | None) -> str:
    return f"{(size or 0) / _MIB:.0f}"

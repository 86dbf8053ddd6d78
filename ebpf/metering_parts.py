"""Which parts of metering work on this host, found by loading and attaching the programs."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebpf.domains.hierarchies import UNIFIED, Hierarchy
from ebpf.errors import ProbeError
from ebpf.metering import Metering
from ebpf.probe.pins import BPF_FILES, is_mounted
from governor.limits import ExecutionLimits

_GROUPS = "programs at the control groups"
_TRACEPOINTS = "programs at tracepoints"
_NEEDS = "it takes root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
_LIMITS = ExecutionLimits(
    memory_bytes=None, pids=None, cpu_millis=None, cpu_ms=None, wall_ms=1, output_bytes=1
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that metering does: by which means, whether it holds a limit, or why not at all."""

    name: str
    by: str
    why_not: str = ""
    holds: bool = False


def found_parts(hierarchies: Mapping[str, Hierarchy]) -> tuple[Part, ...]:
    """Return each part of metering, after counting a domain of nobody to be sure."""
    own = hierarchies.get(UNIFIED)
    if own is None:
        return parts_without("no v2 hierarchy of control groups is mounted")
    try:
        metering = Metering()
    except ProbeError as error:
        return parts_without(_refused(error))
    try:
        _try(metering, own.own)
    except (ProbeError, OSError) as error:
        return parts_without(_refused(error))
    finally:
        metering.close()
    return _parts(metering.missing)


def parts_without(why: str) -> tuple[Part, ...]:
    """Return the parts of a host where nothing can be metered."""
    return _parts(dict.fromkeys(("network", "processes", "opens", "victims"), why))


def _parts(missing: Mapping[str, str]) -> tuple[Part, ...]:
    network = missing.get("network", "")
    return (
        Part(name="egress_bytes", by=_GROUPS, why_not=network, holds=True),
        Part(name="connections", by=_GROUPS, why_not=network),
        Part(name="executions", by=_TRACEPOINTS, why_not=missing.get("processes", "")),
        Part(name="opens", by=_TRACEPOINTS, why_not=missing.get("opens", "")),
        Part(name="oom_victims", by=_TRACEPOINTS, why_not=missing.get("victims", "")),
        Part(
            name="egress_outlives",
            by=f"links pinned in {BPF_FILES}",
            why_not=network or _why_not_pinned(),
            holds=True,
        ),
        Part(name="sched_ext", by="nothing", why_not="unused: weights of processor time serve"),
    )


def _why_not_pinned() -> str:
    if is_mounted():
        return ""
    return (
        f"no bpf file system is mounted at {BPF_FILES}, so a limit on egress ends with the "
        f"sidecar; run: mount -t bpf bpf {BPF_FILES}"
    )


def _try(metering: Metering, own: Path) -> None:
    """Count an empty domain.

    Raises:
        ProbeError: the kernel refused.
        OSError: its control group cannot be made.
    """
    base = own / f"flyball-probe-{os.getpid()}-metering"
    group = base / "probe"
    try:
        group.mkdir(parents=True)
        metered = metering.attach("probe", group, _LIMITS)
        metered.measured()
        metered.close()
    finally:
        for place in (group, base):
            with suppress(OSError):
                place.rmdir()


def _refused(error: Exception) -> str:
    cause = f": {error.__cause__}" if error.__cause__ else ""
    needs = "" if os.geteuid() == 0 else f"{_NEEDS}; "
    return f"{needs}{error}{cause}"

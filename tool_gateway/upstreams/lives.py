"""How upstreams live, as JSON for those who look after them."""

from collections.abc import Mapping

import anyio

from tool_gateway.server_ports import ServerPlacement
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.relay import UpstreamRelay
from tool_gateway.upstreams.spec import StdioSpec
from tool_gateway.upstreams.vitals import Ending

# Beyond these many of a kind it is their number that tells something.
PIDS_MAX = 200


def brief(connection: UpstreamConnection, *, now_ms: int) -> dict[str, object]:
    """Return how one connection stands; `now_ms` is the epoch time."""
    vitals = connection.vitals
    return {
        "state": connection.state.value,
        "problem": connection.problem or None,
        "pid": vitals.pid,
        "started_at_ms": _epoch_ms(vitals.started_at, now_ms=now_ms),
        "restarts": vitals.restarts,
    }


async def life_of(
    relay: UpstreamRelay,
    connection: UpstreamConnection,
    *,
    placement: ServerPlacement,
    now_ms: int,
) -> Mapping[str, object]:
    """Return all that is known of an upstream's life, those of its sessions among it."""
    spec, vitals = connection.spec, connection.vitals
    pids = await placement.server_processes(connection.placed_as) if vitals.pid else ()
    health = spec.health
    return {
        "pids": list(pids[:PIDS_MAX]),
        "last_end": _ending(vitals.last_end, now_ms=now_ms),
        "idle_s": None if spec.idle_ms is None else spec.idle_ms // 1000,
        "health": None
        if health is None
        else {
            "every_s": health.every_ms // 1000,
            "failed": vitals.failed_checks,
            "answered_at_ms": _epoch_ms(vitals.answered_at, now_ms=now_ms),
        },
        "stderr": list(vitals.stderr.lines()) if isinstance(spec, StdioSpec) else None,
        "sessions": [brief(own, now_ms=now_ms) for own in relay.own_connections],
    }


def _ending(ending: Ending | None, *, now_ms: int) -> dict[str, object] | None:
    if ending is None:
        return None
    return {
        "cause": ending.cause.value,
        "why": ending.why,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "at_ms": _epoch_ms(ending.at, now_ms=now_ms),
    }


def _epoch_ms(at: float | None, *, now_ms: int) -> int | None:
    """Return a reading of the event loop's clock as the time of day."""
    return None if at is None else now_ms - round((anyio.current_time() - at) * 1000)

"""Those that a sidecar tells what happens, as `flyball doctor` finds them."""

import socket
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from runtime.configuration.model import Config
from runtime.doubts import Doubt

CONNECT_SECONDS_MAX = 2.0
_PORTS = {"http": 80, "https": 443}


def told_elsewhere(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each that is told something, and what; of addresses only whose they are."""
    telemetry = config.telemetry
    if telemetry.otlp_endpoint is not None:
        signals = (("spans", telemetry.traces), ("metrics", telemetry.metrics))
        sent = " and ".join(name for name, is_sent in signals if is_sent) or "nothing"
        yield "telemetry", f"{_host(urlsplit(telemetry.otlp_endpoint))} is sent {sent}"
    for table in config.webhook:
        told = f"{_host(urlsplit(table.url))} is sent {', '.join(table.kinds)} (not asked)"
        yield f"webhook {table.name}", told


def doubts_about_collector(config: Config) -> Iterator[Doubt]:
    """Yield a doubt where nobody listens at the collector's address."""
    if config.telemetry.otlp_endpoint is None:
        return
    parts = urlsplit(config.telemetry.otlp_endpoint)
    place = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
    try:
        socket.create_connection(place, timeout=CONNECT_SECONDS_MAX).close()
    except OSError as error:
        told = (
            f"{_host(parts)} does not answer ({error}); calls go on, and what is sent there is "
            "lost until it does: start the collector, or mend telemetry.otlp_endpoint"
        )
        yield Doubt(what="telemetry", told=told)


def _host(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}"

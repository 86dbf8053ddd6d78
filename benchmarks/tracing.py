"""What it costs a governed call that a collector is told of it.

    python benchmarks/tracing.py --rounds 6 --calls 1500

Sidecars that differ only in their `[telemetry]` stand side by side, and each is given the same
calls in turn, whoever begins changing with the round; the figure is the processor time of the
sidecar for a call, as a ratio to the one without a collector in the same round. The collector
takes whatever it is sent and does nothing with it.
"""

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from measure import machine, percentiles, spread  # noqa: E402
from processes import cpu_s  # noqa: E402
from sidecars import Sidecar, echo_upstream, sidecar  # noqa: E402

HERE = Path(__file__).parent
NONE = "no collector"
WAYS = {
    NONE: "",
    "metrics": "traces = false",
    "1 of 100 traces": "sampled = 0.01",
    "1 of 10 traces": "sampled = 0.1",
    "all traces": "sampled = 1.0",
}


class Collector(BaseHTTPRequestHandler):
    """Takes what it is sent."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read it, and say that it is well."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(HTTPStatus.OK)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@dataclass(kw_only=True)
class Party:
    """One sidecar, and what a call cost it in each round."""

    sidecar: Sidecar
    cpu_ms: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)

    def calls(self, options: argparse.Namespace, *, count: int) -> None:
        """Give it so many calls, and note what they cost."""
        before = cpu_s(self.sidecar.process)
        callers = options.callers
        done = subprocess.run(
            [
                *(sys.executable, str(HERE / "gateway_load.py"), "--url", self.sidecar.agents),
                *("--tool", "echo__echo", "--callers", str(callers)),
                *("--seconds", "0", "--calls", str(count // callers)),
                *("--header", f"Authorization: Bearer {self.sidecar.token}"),
            ],
            stdout=subprocess.PIPE,
            check=True,
        )
        seen = json.loads(done.stdout)
        assert not seen["errors"], seen["errors"]
        made = len(seen["samples_ms"]) + callers
        self.cpu_ms.append((cpu_s(self.sidecar.process) - before) * 1e3 / made)
        self.p50_ms.append(percentiles(seen["samples_ms"])[0])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--calls", type=int, default=1_500)
    parser.add_argument("--callers", type=int, default=8)
    options = parser.parse_args()
    with ExitStack() as stack:
        upstream = stack.enter_context(echo_upstream())
        collector = stack.enter_context(_collector())
        parties = {
            way: Party(
                sidecar=stack.enter_context(sidecar(upstream, config=_terms(way, collector)))
            )
            for way in WAYS
        }
        for party in parties.values():
            party.calls(options, count=options.calls // 3)
            party.cpu_ms.clear()
            party.p50_ms.clear()
        for number in range(options.rounds):
            order = list(parties.values())
            first = number % len(order)
            for party in (*order[first:], *order[:first]):
                party.calls(options, count=options.calls)
    print(f"{machine()}, {options.callers} callers, {options.calls} calls a round\n")
    print("| told | CPU ms/call | as a ratio | p50 ms |\n|---|---|---|---|")
    plain = parties[NONE].cpu_ms
    for way, party in parties.items():
        ratio = spread(
            (one / base for one, base in zip(party.cpu_ms, plain, strict=True)), digits=3
        )
        print(f"| {way} | {spread(party.cpu_ms, digits=2)} | {ratio} | {spread(party.p50_ms)} |")


def _terms(way: str, collector: str) -> str:
    told = "" if way == NONE else f'[telemetry]\notlp_endpoint = "{collector}"\n{WAYS[way]}\n'
    return f'[store]\ndurability = "process"\n{told}'


@contextmanager
def _collector() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


if __name__ == "__main__":
    main()

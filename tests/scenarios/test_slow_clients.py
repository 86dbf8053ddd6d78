"""A healthy client beside hundreds that hold connections and say nothing, or little by little."""

import resource
import socket
import time
from contextlib import ExitStack

import psutil
import pytest
from scenarios.process import SidecarProcess
from scenarios.test_bad_input import still_serves

pytestmark = pytest.mark.anyio
CONNECTIONS = 500
CALLS = 20
# What a connection may cost; measured are some ten KiB.
BYTES_EACH_MAX = 64 * 1024
HEAD = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n"
BODY = HEAD + b"content-type: application/json\r\ncontent-length: 100000\r\n\r\n{"


@pytest.mark.requirement("input.slow-clients")
@pytest.mark.parametrize("said", [b"", HEAD, BODY], ids=["silent", "slow head", "slow body"])
async def test_many_slow_clients_cost_little_memory_and_keep_nobody_out(
    shared_sidecar: SidecarProcess, said: bytes
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert shared_sidecar.process is not None
    process = psutil.Process(shared_sidecar.process.pid)
    port = int(shared_sidecar.urls["agents"].rpartition(":")[2].partition("/")[0])
    assert await still_serves(shared_sidecar)
    before = process.memory_info().rss

    took_s = []
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(CONNECTIONS)
        ]
        for number in range(CALLS):
            for client in crowd:
                client.sendall(said if number == 0 else said[:1])
            began = time.monotonic()
            assert await still_serves(shared_sidecar)
            took_s.append(time.monotonic() - began)
        grown = process.memory_info().rss - before

    assert grown < CONNECTIONS * BYTES_EACH_MAX
    assert max(took_s) < 5

"""A healthy client beside hundreds that hold connections and say nothing, or little by little."""

import resource
import socket
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
# What the calls and ten thousand bytes that come one by one may cost; measured is a tenth.
CPU_SECONDS_MAX = 15
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
    before, used_before = process.memory_info().rss, sum(process.cpu_times()[:2])

    with ExitStack() as stack:
        crowd = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(CONNECTIONS)
        ]
        for number in range(CALLS):
            for client in crowd:
                client.sendall(said if number == 0 else said[:1])
            assert await still_serves(shared_sidecar)
        grown = process.memory_info().rss - before
        used = sum(process.cpu_times()[:2]) - used_before

    assert grown < CONNECTIONS * BYTES_EACH_MAX
    assert used < CPU_SECONDS_MAX

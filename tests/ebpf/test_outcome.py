"""What ended a command, and what was kept of its output, decided from figures."""

import anyio
import pytest

from ebpf.command import EndCause
from ebpf.domains.domain import Measured
from ebpf.supervision import Captured, final_cause

NOTHING = Measured(cpu_ms=1, memory_peak_bytes=1)
KILLED = Measured(cpu_ms=1, memory_peak_bytes=1, memory_kills=1, killed_by=EndCause.SESSION_MEMORY)
BLIND = Measured(cpu_ms=1, memory_peak_bytes=1, memory_kills=None)


@pytest.mark.parametrize(
    ("first", "measured", "dropped_bytes", "signal", "expected"),
    [
        (EndCause.EXITED, NOTHING, 0, None, EndCause.EXITED),
        (EndCause.EXITED, NOTHING, 0, 9, EndCause.SIGNALLED),
        (EndCause.EXITED, KILLED, 0, 9, EndCause.SESSION_MEMORY),
        (EndCause.EXITED, KILLED, 0, None, EndCause.SESSION_MEMORY),
        (EndCause.EXITED, NOTHING, 1, None, EndCause.OUTPUT),
        (EndCause.EXITED, BLIND, 0, None, EndCause.EXITED),
        (EndCause.EXITED, BLIND, 0, 11, EndCause.SIGNALLED),
        (EndCause.EXITED, BLIND, 0, 9, EndCause.UNKNOWN),
        (EndCause.WALL, KILLED, 1, 9, EndCause.WALL),
        (EndCause.CPU, NOTHING, 0, 9, EndCause.CPU),
    ],
)
def test_the_cause_is_the_limit_that_bit_and_never_a_guess_from_a_signal(
    *,
    first: EndCause,
    measured: Measured,
    dropped_bytes: int,
    signal: int | None,
    expected: EndCause,
) -> None:
    found = final_cause(first, measured=measured, dropped_bytes=dropped_bytes, signal=signal)

    assert found is expected


@pytest.mark.anyio
async def test_both_streams_share_one_ceiling_and_the_rest_is_counted() -> None:
    overflows: list[None] = []
    captured = Captured(bytes_max=10, overflowed=lambda: overflows.append(None))
    send, receive = anyio.create_memory_object_stream[bytes](4)
    for part in (b"abcdef", b"ghij", b"klm", b"n"):
        send.send_nowait(part)
    send.close()

    with anyio.fail_after(60):
        await captured.read(receive, captured.stdout)  # type: ignore[arg-type]

    assert captured.stdout.kept == b"abcdefghij"
    assert captured.dropped_bytes == 4
    assert len(overflows) == 2
    receive.close()

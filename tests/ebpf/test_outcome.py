"""What ended a command, and what was kept of its output, decided from figures."""

import anyio
import pytest

from ebpf.command import EndCause
from ebpf.domains.domain import Measured
from ebpf.supervision import Captured, final_cause

NOTHING = Measured(cpu_ms=1, memory_peak_bytes=1)
KILLED = Measured(cpu_ms=1, memory_peak_bytes=1, memory_kills=1)


@pytest.mark.parametrize(
    ("first", "measured", "dropped_bytes", "signalled", "expected"),
    [
        (EndCause.EXITED, NOTHING, 0, False, EndCause.EXITED),
        (EndCause.EXITED, NOTHING, 0, True, EndCause.SIGNALLED),
        (EndCause.EXITED, KILLED, 0, True, EndCause.MEMORY),
        (EndCause.EXITED, KILLED, 0, False, EndCause.MEMORY),
        (EndCause.EXITED, NOTHING, 1, False, EndCause.OUTPUT),
        (EndCause.WALL, KILLED, 1, True, EndCause.WALL),
        (EndCause.CPU, NOTHING, 0, True, EndCause.CPU),
    ],
)
def test_the_cause_is_the_limit_that_bit_and_never_a_guess_from_a_signal(
    *, first: EndCause, measured: Measured, dropped_bytes: int, signalled: bool, expected: EndCause
) -> None:
    found = final_cause(first, measured=measured, dropped_bytes=dropped_bytes, signalled=signalled)

    assert found is expected


@pytest.mark.anyio
async def test_both_streams_share_one_ceiling_and_the_rest_is_counted() -> None:
    overflows: list[None] = []
    captured = Captured(bytes_max=10, overflowed=lambda: overflows.append(None))
    send, receive = anyio.create_memory_object_stream[bytes](4)
    for part in (b"abcdef", b"ghij", b"klm", b"n"):
        send.send_nowait(part)
    send.close()

    with anyio.fail_after(5):
        await captured.read(receive, captured.stdout)  # type: ignore[arg-type]

    assert captured.stdout.kept == b"abcdefghij"
    assert captured.dropped_bytes == 4
    assert len(overflows) == 2
    receive.close()

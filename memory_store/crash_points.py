"""Named instants at which a test may end the process, as a power cut would.

Whether a store survives a crash is decided between its writes. These points are where the
writer's thread stands then; in production nothing is armed and a point costs a comparison.
"""

import os
import signal

POINTS = (
    "batch_taken",
    "pieces_run",
    "sessions_written",
    "reservations_written",
    "balances_written",
    "journal_written",
    "before_commit",
    "after_commit_before_ack",
    "after_ack",
)

_armed: dict[str, int] = {}


def arm(point: str, nth: int) -> None:
    """End the process with SIGKILL when `point` is reached for the `nth` time."""
    assert point in POINTS, f"no such point: {point}"
    _armed[point] = nth


def reached(point: str) -> None:
    """Say that the writer stands at `point`."""
    if not _armed or point not in _armed:
        return
    _armed[point] -= 1
    if _armed[point] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

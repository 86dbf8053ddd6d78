"""How a call ended, in a cell of a table."""

from collections.abc import Mapping
from typing import Any

from governor.call import CallStatus
from runtime.cli.showing import Cell, Tone

_MS_PER_S = 1_000
_TONES = {
    CallStatus.OK: Tone.GOOD,
    CallStatus.DENIED: Tone.WARN,
    CallStatus.CANCELLED: Tone.FAINT,
}


def status_cell(call: Mapping[str, Any]) -> Cell:
    """Return how a call ended, with why where it was denied."""
    status = CallStatus(call["status"])
    why = f": {call['denial']}" if call["denial"] else ""
    return Cell(text=f"{status.value}{why}", tone=_TONES.get(status, Tone.BAD))


def took(call: Mapping[str, Any]) -> str:
    """Return how long a call took."""
    return f"{(call['ended_at_ms'] - call['started_at_ms']) / _MS_PER_S:.3f} s"


def tokens_of(call: Mapping[str, Any]) -> str:
    """Return how many tokens a call was charged."""
    charged = call["charged"]
    return str(charged["input_tokens"] + charged["output_tokens"] or "-")

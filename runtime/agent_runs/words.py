"""What a launcher and the sidecar say to each other of an agent: a line of JSON each."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ebpf.launcher.spec import CarveSpec
from governor.amounts import AMOUNT_MAX
from tool_gateway.identity import NAME_LENGTH_MAX

SOCKET = "run.sock"
# `sun_path` has room for 108 bytes on Linux, 104 elsewhere, the last of which is no part of it.
SOCKET_BYTES_MAX = 107 if sys.platform == "linux" else 103
LINE_BYTES_MAX = 1024 * 1024
# How long an agent that must end may take to do it by itself.
GRACE_MS = 2_000
_MIB = 1024 * 1024
# What a kernel can count, and what a rule can say.
_PIDS_MAX = 2**22
_CPUS_MAX = 1_024


class Why(StrEnum):
    """Why the sidecar ends an agent."""

    BUDGET = "budget"
    SESSION = "session"
    LIMIT = "limit"
    FAILED = "failed"


class MachineLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the whole tree of an agent may take of the machine; None leaves it to the rules."""

    memory_mib: Annotated[int, Meta(gt=0, le=AMOUNT_MAX // _MIB)] | None = None
    pids: Annotated[int, Meta(gt=0, le=_PIDS_MAX)] | None = None
    cpus: Annotated[float, Meta(gt=0, le=_CPUS_MAX)] | None = None


class Begin(msgspec.Struct, tag="begin", frozen=True, forbid_unknown_fields=True):
    """An agent is to be started, for whoever the token is; `is_joinable` if it enters groups.

    One that `is_carved` has an allowance of its own, which was set when it was started.
    """

    token: str
    session: str
    command: list[str]
    cwd: str
    user: str | None = None
    limits: MachineLimits = MachineLimits()
    is_joinable: bool = True
    is_carved: bool = False

    def __post_init__(self) -> None:
        """Refuse a name that no request could say again."""
        check_session(self.session)


class Started(msgspec.Struct, tag="started", frozen=True, forbid_unknown_fields=True):
    """It was started, as this process."""

    pid: int


class Ended(msgspec.Struct, tag="ended", frozen=True, forbid_unknown_fields=True):
    """It has ended by itself, with a code, or by a signal."""

    code: int | None = None
    signal: int | None = None


class Refused(msgspec.Struct, tag="refused", frozen=True):
    """It may not be started; nothing is held for it."""

    text: str
    denial: dict[str, Any] | None = None


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """Its domain is made and its first time is paid: start it there, with this key."""

    run: str
    session_id: str
    key: str = ""
    join: tuple[str, ...] = ()
    rlimits: tuple[tuple[int, int, int], ...] = ()
    marker: tuple[str, str] | None = None
    account: tuple[int, int] | None = None
    carve: CarveSpec | None = None
    enforcement: str = ""
    contained: bool = False
    by: str = ""
    why: str = ""


class Told(msgspec.Struct, tag="told", frozen=True):
    """Something that whoever sits at the terminal should know."""

    text: str


class Standing(msgspec.Struct, tag="standing", frozen=True):
    """It stands still from now on, or goes on."""

    is_frozen: bool
    text: str


class Ending(msgspec.Struct, tag="ending", frozen=True):
    """It is to end now, and is killed when its grace is over."""

    why: Why
    text: str
    grace_ms: int


class Settled(msgspec.Struct, tag="settled", frozen=True):
    """Nothing is left of it, and this is what it was charged."""

    usage: dict[str, int]
    unmeasured: dict[str, str]
    memory_peak_bytes: int | None


FromLauncher = Begin | Started | Ended
FromSidecar = Refused | Ready | Told | Standing | Ending | Settled

_launcher = msgspec.json.Decoder(FromLauncher)
_sidecar = msgspec.json.Decoder(FromSidecar)


def check_session(name: str) -> None:
    """Refuse what is no name of a session.

    Raises:
        ValueError: it is empty, too long or not printable.
    """
    if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise ValueError(f"a session has a printable name of 1 to {NAME_LENGTH_MAX} characters")


def socket_in(state_dir: Path) -> Path:
    """Return where the sidecar of a state directory hears launchers."""
    return state_dir / SOCKET


def line_of(said: FromLauncher | FromSidecar) -> bytes:
    """Return the line that says it."""
    return msgspec.json.encode(said) + b"\n"


def heard_from_launcher(line: bytes) -> FromLauncher:
    """Return what a launcher says.

    Raises:
        msgspec.ValidationError: it says nothing that is known.
        msgspec.DecodeError: as above.
    """
    said: FromLauncher = _launcher.decode(line)
    return said


def heard_from_sidecar(line: bytes) -> FromSidecar:
    """Return what the sidecar says.

    Raises:
        msgspec.ValidationError: it says nothing that is known.
        msgspec.DecodeError: as above.
    """
    said: FromSidecar = _sidecar.decode(line)
    return said

"""What is hung on a domain while a command runs in it, by programs in the kernel as a rule."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from ebpf.command import EndCause
from governor.amounts import Unit
from governor.limits import ExecutionLimits


class Attachment(Protocol):
    """What counts, or holds back, the processes of one domain until it is closed."""

    def measured(self) -> Mapping[Unit, int]:
        """Return what the domain's processes have used so far, of what this counts.

        Raises:
            EbpfError: the figures cannot be read.
        """

    async def exceeded(self) -> EndCause:
        """Return the limit that was exceeded, once one is; else never return.

        Raises:
            EbpfError: it can no longer be told.
        """

    def ended_by(self) -> EndCause | None:
        """Return the limit that was exceeded by now, also where nobody waited for it.

        A command may give up, and exit, before the one who waits has noticed why.

        Raises:
            EbpfError: it cannot be told.
        """

    async def drain(self, *, seconds_max: float) -> None:
        """Wait until what is on its way has gone, at most so long; then let nothing more go.

        To be called when no process is left: what is measured afterwards is final. A second call
        changes nothing.
        """

    def notes(self) -> tuple[str, ...]:
        """Return what is worth knowing of the command, in a few short lines; read at its end."""

    def close(self) -> None:
        """Take it off the domain; to be called once, before the domain is removed."""


class Attacher(Protocol):
    """Hangs one kind of attachment on every domain."""

    @property
    def measures(self) -> frozenset[Unit]:
        """Return the units that its attachments count of every command."""

    def attach(self, name: str, group: Path, limits: ExecutionLimits) -> Attachment:
        """Return what hangs on a domain from now on; nothing runs in it yet.

        `group` is the domain's directory in the v2 hierarchy.

        Raises:
            EbpfError: it cannot be attached, so the command must not run.
        """


@contextmanager
def closing(attached: Sequence[Attachment]) -> Iterator[None]:
    """Close all of them at the end of the block, each whatever becomes of the others."""
    with ExitStack() as left:
        for one in attached:
            left.callback(one.close)
        yield

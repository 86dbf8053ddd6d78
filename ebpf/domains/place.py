"""Where a domain stands among others: its tenant, its session, its call."""

import hashlib
import re
from dataclasses import dataclass

# A dot would let an id be mistaken for a control file, and the first sign is a letter or a
# digit so that what Flyball names itself (`_servers`) is never somebody's id.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# What a hash looks like, and what a sweep takes for the groups of an instance.
_MEANING = re.compile(r"h-[0-9a-f]{24}|flyball-.*")
# Control files of version 1 without a dot in their names.
_TAKEN = frozenset({"tasks", "notify_on_release", "release_agent"})

SERVERS = "_servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose command it is; any text will do, `path` makes directories of it.

    What `ends_together` is of no use without its parts: where one process must be killed for
    want of memory, all are.
    """

    tenant: str
    session: str
    call: str
    ends_together: bool = True

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names of the directories from the tenant's down to the call's."""
        return tuple(map(directory_name, (self.tenant, self.session, self.call)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """A long-lived server: it serves many tenants, so it stands beside them all."""

    name: str
    ends_together: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names of the directories down to the server's."""
        return SERVERS, directory_name(self.name)


def directory_name(text: str) -> str:
    """Return an id as the name of a directory: itself where it is safe, else its hash.

    Two ids never share a name: what looks like a hash is hashed again.
    """
    if _PLAIN.fullmatch(text) and not _MEANING.fullmatch(text) and text not in _TAKEN:
        return text
    return f"h-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:24]}"

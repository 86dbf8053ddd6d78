"""What the sidecar tells the launcher; imported by the launcher for its types alone."""

from typing import TypedDict


class CarveSpec(TypedDict):
    """Which parts of the file system Landlock withholds from the command."""

    abi: int
    hidden: list[str]
    read_only: list[str]
    no_exec: list[str]


class LaunchSpec(TypedDict):
    """Everything one launch needs, in types that `marshal` and JSON both carry."""

    argv: list[str]
    cwd: str | None
    env: dict[str, str] | None  # None: the launcher's own, plus the marker
    marker: tuple[str, str] | None  # for servers, whose environment somebody else gives
    join: list[str]  # the files of control groups to write in order to enter them, in this order
    born_in: str | None  # the v2 group that a clone can be in from the first; else the next
    join_unless_born: list[str]
    rlimits: list[tuple[int, int, int]]
    account: tuple[int, int] | None  # the uid and gid to become
    carve: CarveSpec | None
    filter: bytes | None  # the system calls that are refused; never in a JSON text
    status_fd: int | None
    parent_pid: int  # the sidecar, with which everything ends
    governed: bool  # a command, which gets a session of its own and loses its privileges
    keeper: bool  # stay above it as the parent of its orphans

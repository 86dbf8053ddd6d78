"""Landlock: withhold reading, writing or starting what is in some places, for good.

It holds for this process and its children.

Landlock knows no "everything but": a right that is granted on a directory holds for all
that is beneath it. To withhold one directory its ancestors must therefore be left
ungranted, and each of their other children granted by itself. What follows from this:

- A right over a file that is made later, directly in an ancestor, is granted to nobody.
- The right to list directories is not handled at all, because `ls /` would fail with it:
  the names in a hidden directory can be read, its contents cannot.
- Symbolic links are skipped. A rule on a link is a rule on its target, and the target may
  be the very thing that is hidden.
"""

import ctypes
import os
import stat
import sys

from ebpf.launcher import linux

TYPE_CHECKING = False  # `typing` costs every launch milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ebpf.launcher.spec import CarveSpec

# The same on every architecture: Landlock is younger than the unified system call table.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13  # ABI 2
_TRUNCATE = 1 << 14  # ABI 3
_SCOPE_SIGNAL = 1 << 1  # ABI 6

_ABI_REFER = 2
_ABI_TRUNCATE = 3
_ABI_NET = 4
ABI_SIGNAL = 6

_READ = _EXECUTE | _READ_FILE
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE

RULES_MAX = 8192


def supported_abi() -> int:
    """Return the Landlock version of this kernel, 0 where there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return linux.syscall(
            "landlock_create_ruleset", _CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION
        )
    except OSError:
        return 0  # not built in (ENOSYS) or not enabled at boot (EOPNOTSUPP)


def handled_rights(abi: int) -> int:
    """Return the file-system rights that a ruleset of this version withholds by default."""
    rights = _READ | _WRITE_FILE | _REMOVE_AND_MAKE
    if abi >= _ABI_REFER:
        rights |= _REFER
    if abi >= _ABI_TRUNCATE:
        rights |= _TRUNCATE
    return rights


def grants(carve: "CarveSpec") -> "Iterator[tuple[str, int]]":
    """Yield the paths to grant, each with its rights, so that what is carved out is not."""
    every = handled_rights(carve["abi"])
    withheld = [(path, every) for path in carve["hidden"]]
    withheld += [(path, every & ~_READ) for path in carve["read_only"]]
    withheld += [(path, _EXECUTE) for path in carve["no_exec"]]
    yield from _grants_beneath("/", every, withheld)


def _grants_beneath(
    path: str, wanted: int, withheld: "list[tuple[str, int]]"
) -> "Iterator[tuple[str, int]]":
    """Yield what must be granted on `path` and beneath it to have `wanted` where allowed."""
    inside = path.rstrip("/") + "/"
    lost = kept_below = 0
    for other, rights in withheld:
        if other == path:
            lost |= rights
        elif other.startswith(inside):
            kept_below |= rights
    wanted &= ~lost
    here = wanted & ~kept_below
    if here:
        yield path, here
    rest = wanted & kept_below
    if rest:
        for name in sorted(os.listdir(path)):  # noqa: PTH208 - pathlib costs every launch
            yield from _grants_beneath(inside + name, rest, withheld)


def restrict(carve: "CarveSpec") -> None:
    """Put this process, and all that it will start, behind the carve for good."""
    ruleset = built(carve)
    enforce(ruleset)
    os.close(ruleset)


def enforce(ruleset: int) -> None:
    """Put this process, and all that it will start, behind a ruleset for good."""
    linux.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)


def built(carve: "CarveSpec") -> int:
    """Return the descriptor of a ruleset that holds the carve as the file system is now.

    Raises:
        OSError: the kernel refused a rule, or would need too many.
    """
    abi = carve["abi"]
    # The attribute grew with the versions: file system, network (4), scope (6).
    words = [handled_rights(abi), 0, _SCOPE_SIGNAL]
    size = 8 if abi < _ABI_NET else 16 if abi < ABI_SIGNAL else 24
    attribute = (ctypes.c_uint64 * 3)(*words)
    ruleset = linux.syscall(
        "landlock_create_ruleset", _CREATE_RULESET, attribute, ctypes.c_size_t(size), 0
    )
    try:
        _fill(ruleset, carve)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _fill(ruleset: int, carve: "CarveSpec") -> None:
    for count, (path, rights) in enumerate(grants(carve)):
        if count >= RULES_MAX:
            raise OSError(7, f"more than {RULES_MAX} Landlock rules are needed")
        _allow(ruleset, path, rights)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # it went away since it was listed, so there is nothing to grant
    try:
        mode = os.fstat(target).st_mode
        if stat.S_ISLNK(mode):
            return
        if not stat.S_ISDIR(mode):
            rights &= _ON_FILES
        # struct landlock_path_beneath_attr is packed: a 64-bit mask, then a descriptor.
        rule = rights.to_bytes(8, sys.byteorder) + target.to_bytes(4, sys.byteorder)
        if rights:
            linux.syscall("landlock_add_rule", _ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(target)

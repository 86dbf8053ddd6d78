"""The system calls that Python has no name for."""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_EPERM = 1
_E2BIG = 7
_EINVAL = 22
_ENOSYS = 38
_SIGKILL = 9
_SIGCHLD = 17
_CAPABILITIES_MAX = 64  # version 3 has room for this many

_CLONE3 = 435
_CLONE_PARENT = 0x8000
_CLONE_INTO_CGROUP = 0x2_0000_0000
_CLONE_WORDS = 11  # of 64 bits, up to the group's descriptor
# The number of the older call, where its first argument is the flags.
_CLONE = {"x86_64": 56, "aarch64": 220}
# No such call, no such flag, or one that a filter on system calls keeps from us.
_NOT_HERE = frozenset({_EPERM, _E2BIG, _EINVAL, _ENOSYS})

_libc = ctypes.CDLL(None, use_errno=True)
# Keeps the interpreter's lock, which a process that comes to be in a call must hold already.
_holding = ctypes.PyDLL(None, use_errno=True)

# Made and found once: each time would touch more memory than all else that a launch does.
if sys.platform == "linux":
    _capset = _libc.capset
    _prctl_call = _libc.prctl
    _syscall = _libc.syscall
    _syscall_holding = _holding.syscall
_CAPABILITY_HEADER = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
_NO_CAPABILITY = (ctypes.c_uint32 * 6)()


def failed(what: str) -> OSError:
    """Return the error of the C function that has just failed."""
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def syscall(what: str, number: int, *arguments: object) -> int:
    """Return what the system call returned.

    Raises:
        OSError: it failed.
    """
    result = int(_syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise failed(what)
    return result


def prctl(what: str, option: int, argument: int, second: int = 0) -> None:
    """Set an attribute of this process.

    Raises:
        OSError: the kernel refused.
    """
    words = (argument, second, 0, 0)
    if _prctl_call(option, *map(ctypes.c_ulong, words)) != 0:
        raise failed(what)


def die_with_parent(parent_pid: int) -> None:
    """Be killed when the parent's thread ends, now if it already has."""
    prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Make set-uid bits and file capabilities mean nothing from now on."""
    prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def drop_bounding_set() -> None:
    """Take every capability that the kernel knows out of the bounding set."""
    for capability in range(_CAPABILITIES_MAX):
        try:
            prctl("PR_CAPBSET_DROP", _PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == _EINVAL and capability > 0:
                return  # one past the last capability of this kernel
            raise


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets."""
    if _capset(_CAPABILITY_HEADER, _NO_CAPABILITY) != 0:
        raise failed("capset")


def can_clone_siblings() -> bool:
    """Tell whether this system has what `clone_sibling` and its parent need."""
    if os.uname().machine not in _CLONE:
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False  # no Linux, or one before 5.3
    return True


def clone_sibling(group: int | None) -> tuple[int, bool]:
    """Return 0 in the new process and its id in this one, and whether it is in the group.

    It is a child of this process's parent, who alone can wait for it, and on whom alone its
    life depends. Being born in the v2 group of the descriptor `group` takes no lock that
    stands still all other forks; where the kernel cannot do it, the new process must join.

    To be called where there is one thread only, now and in the new process.

    Raises:
        OSError: there is no new process.
    """
    if group is not None:
        try:
            return _forked(_clone_into(group)), True
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise  # nobody may be born in this group, or nobody more
    number = ctypes.c_long(_CLONE[os.uname().machine])
    flags = ctypes.c_ulong(_CLONE_PARENT | _SIGCHLD)
    zero = ctypes.c_ulong(0)
    return _forked(_syscall_holding(number, flags, zero, zero, zero, zero)), False


def _clone_into(group: int) -> int:
    # The signal of its end is that of this process's own, by virtue of the flag.
    words = (ctypes.c_uint64 * _CLONE_WORDS)(_CLONE_PARENT | _CLONE_INTO_CGROUP)
    words[_CLONE_WORDS - 1] = group
    size = ctypes.c_size_t(ctypes.sizeof(words))
    return int(_syscall_holding(ctypes.c_long(_CLONE3), ctypes.byref(words), size))


def _forked(pid: int) -> int:
    # The interpreter need not be told: what it would put right is what other threads held.
    if pid < 0:
        raise failed("clone")
    return pid

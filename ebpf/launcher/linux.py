"""The system calls that Python has no name for."""

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_EINVAL = 22
_SIGKILL = 9
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES_MAX = 64  # version 3 has room for this many

_libc = ctypes.CDLL(None, use_errno=True)


def failed(what: str) -> OSError:
    """Return the error of the C function that has just failed."""
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def syscall(what: str, number: int, *arguments: object) -> int:
    """Return what the system call returned.

    Raises:
        OSError: it failed.
    """
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise failed(what)
    return result


def _prctl(what: str, option: int, argument: int) -> None:
    words = (ctypes.c_ulong(argument), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
    if _libc.prctl(option, *words) != 0:
        raise failed(what)


def die_with_parent(parent_pid: int) -> None:
    """Be killed when the parent's thread ends, now if it already has."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Make set-uid bits and file capabilities mean nothing from now on."""
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def drop_bounding_set() -> None:
    """Take every capability that the kernel knows out of the bounding set."""
    for capability in range(_CAPABILITIES_MAX):
        try:
            _prctl("PR_CAPBSET_DROP", _PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == _EINVAL and capability > 0:
                return  # one past the last capability of this kernel
            raise


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _libc.capset(header, nothing) != 0:
        raise failed("capset")

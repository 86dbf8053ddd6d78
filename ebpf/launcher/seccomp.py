"""Putting a filter of system calls on this process and its children, for good."""

import ctypes

from ebpf.launcher import linux

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_STEP_BYTES = 8


class _Program(ctypes.Structure):
    """`struct sock_fprog`: how many steps there are, and where."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def restrict(steps: bytes) -> None:
    """Have the kernel refuse what the filter refuses; new privileges must be forbidden."""
    program = _Program(len(steps) // _STEP_BYTES, steps)
    linux.prctl("PR_SET_SECCOMP", _PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program))

"""The filter of system calls that a command starts with, as the kernel reads it.

It refuses what no tool needs and what leads out of a domain or out of what is counted there:
namespaces and mounts of its own, programs in the kernel, keyrings, and rings of system calls
that nobody sees. Where a rule confines the network, it also leaves no other way to it.
"""

import ctypes
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from errno import EAFNOSUPPORT, ENOSYS, EPERM

from ebpf.launcher import linux

# What follows is the kernel's own: <linux/filter.h>, <linux/seccomp.h>, <linux/audit.h>.
_LOAD = 0x20
_IF_EQUAL = 0x15
_IF_AT_LEAST = 0x35
_IF_ANY_BIT = 0x45
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000
_AT_NUMBER = 0
_AT_MACHINE = 4
_AT_FIRST_ARGUMENT = 16  # its lower half, on machines that store that first
_X32 = 0x40000000
_GET_ACTION_AVAIL = 2

_NEW_NAMESPACE = 0x7E020000
_NEW_TIME_NAMESPACE = 0x80  # for `unshare`; `clone` has the signal of its end in these bits
_PTRACE_ATTACH = 16
_PTRACE_SEIZE = 0x4206
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16

_REFUSED = (
    *("mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "mount_setattr", "setns"),
    *("bpf", "perf_event_open", "userfaultfd", "add_key", "request_key", "keyctl"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),
    *("swapon", "swapoff", "reboot", "acct", "open_by_handle_at"),
)
# Their callers try the older way, which can be looked into, when there is none of these.
_MISSING = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
_OF_OTHERS = ("process_vm_readv", "process_vm_writev", "pidfd_getfd")

_SAME_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}


@dataclass(frozen=True, slots=True)
class _Machine:
    """A kind of processor: its name in <linux/audit.h> and its system calls by number."""

    audit: int
    calls: Mapping[str, int]


_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        {
            **_SAME_EVERYWHERE,
            "socket": 41,
            "clone": 56,
            "ptrace": 101,
            "pivot_root": 155,
            "acct": 163,
            "mount": 165,
            "umount2": 166,
            "swapon": 167,
            "swapoff": 168,
            "reboot": 169,
            "init_module": 175,
            "delete_module": 176,
            "kexec_load": 246,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "perf_event_open": 298,
            "open_by_handle_at": 304,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "finit_module": 313,
            "seccomp": 317,
            "kexec_file_load": 320,
            "bpf": 321,
            "userfaultfd": 323,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        {
            **_SAME_EVERYWHERE,
            "umount2": 39,
            "mount": 40,
            "pivot_root": 41,
            "acct": 89,
            "unshare": 97,
            "kexec_load": 104,
            "init_module": 105,
            "delete_module": 106,
            "ptrace": 117,
            "reboot": 142,
            "socket": 198,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "clone": 220,
            "swapon": 224,
            "swapoff": 225,
            "perf_event_open": 241,
            "open_by_handle_at": 265,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "finit_module": 273,
            "seccomp": 277,
            "bpf": 280,
            "userfaultfd": 282,
            "kexec_file_load": 294,
        },
    ),
}


class Sockets(Enum):
    """Which families of sockets a command may make."""

    ANY = auto()
    CONFINED = auto()  # of those that reach further than this machine, the internet's alone
    LOCAL = auto()  # none that reaches further than a file or the kernel


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction; the jumps say how many to leave out."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0

    def packed(self) -> bytes:
        return b"".join(
            number.to_bytes(size, sys.byteorder)
            for number, size in (
                (self.code, 2),
                (self.if_true, 1),
                (self.if_false, 1),
                (self.value, 4),
            )
        )


def is_supported() -> bool:
    """Tell whether this kernel takes filters and knows how to refuse a call."""
    machine = _machine()
    if machine is None:
        return False
    action = ctypes.c_uint32(_REFUSE)
    try:
        linux.syscall(
            "seccomp", machine.calls["seccomp"], _GET_ACTION_AVAIL, 0, ctypes.byref(action)
        )
    except OSError:
        return False
    return True


def filter_for(sockets: Sockets, *, guards_others: bool) -> bytes | None:
    """Return the filter in the kernel's form; None where this machine's calls are not known.

    `guards_others` also refuses to look into other processes, which Landlock does by itself.
    """
    machine = _machine()
    if machine is None:
        return None
    numbers = machine.calls
    steps = [
        _Step(_LOAD, _AT_MACHINE),
        _Step(_IF_EQUAL, machine.audit, if_true=1),
        _refuse(ENOSYS),  # programs of another word length number their calls otherwise
        _Step(_LOAD, _AT_NUMBER),
        _Step(_IF_AT_LEAST, _X32, if_false=1),
        _refuse(ENOSYS),
    ]
    for name in (*_REFUSED, *(_OF_OTHERS if guards_others else ())):
        steps += _when(numbers[name], [_refuse(EPERM)])
    for name in _MISSING:
        steps += _when(numbers[name], [_refuse(ENOSYS)])
    steps += _when(numbers["clone"], _unless_bits(_NEW_NAMESPACE))
    steps += _when(numbers["unshare"], _unless_bits(_NEW_NAMESPACE | _NEW_TIME_NAMESPACE))
    if guards_others:
        steps += _when(numbers["ptrace"], _unless_equal((_PTRACE_ATTACH, _PTRACE_SEIZE)))
    if sockets is not Sockets.ANY:
        internet = (_INET, _INET6) if sockets is Sockets.CONFINED else ()
        steps += _when(numbers["socket"], _only_equal((_UNIX, _NETLINK, *internet)))
    steps.append(_Step(_RETURN, _ALLOW))
    return b"".join(step.packed() for step in steps)


def _machine() -> _Machine | None:
    # Numbers and the place of an argument's half hold for programs of 64 bits.
    if sys.platform != "linux" or sys.byteorder != "little" or sys.maxsize < 1 << 32:
        return None
    return _MACHINES.get(platform.machine())


def _refuse(error: int) -> _Step:
    return _Step(_RETURN, _REFUSE | error)


def _when(number: int, then: list[_Step]) -> list[_Step]:
    """Return what ends with `then` for one system call and goes on for the others."""
    return [_Step(_IF_EQUAL, number, if_false=len(then)), *then]


def _unless_bits(bits: int) -> list[_Step]:
    return [
        _Step(_LOAD, _AT_FIRST_ARGUMENT),
        _Step(_IF_ANY_BIT, bits, if_false=1),
        _refuse(EPERM),
        _Step(_RETURN, _ALLOW),
    ]


def _unless_equal(values: tuple[int, ...]) -> list[_Step]:
    refusals = [
        step for value in values for step in (_Step(_IF_EQUAL, value, if_false=1), _refuse(EPERM))
    ]
    return [_Step(_LOAD, _AT_FIRST_ARGUMENT), *refusals, _Step(_RETURN, _ALLOW)]


def _only_equal(values: tuple[int, ...]) -> list[_Step]:
    allowed = [
        step
        for value in values
        for step in (_Step(_IF_EQUAL, value, if_false=1), _Step(_RETURN, _ALLOW))
    ]
    return [_Step(_LOAD, _AT_FIRST_ARGUMENT), *allowed, _refuse(EAFNOSUPPORT)]

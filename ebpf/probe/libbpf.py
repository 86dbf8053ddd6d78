"""The functions of libbpf.so.1 that are used here, with their types.

libbpf is optional: without it nothing of this package works, and `libbpf()` says why. Version 1
returns NULL and sets errno where it returns a pointer, and a negative errno where an integer.
"""

import ctypes
import os
from collections import deque
from functools import cache

from ebpf.errors import ProbeError

_NAME = "libbpf.so.1"
_WARNING = 0
_LINE_BYTES_MAX = 1024
_LOG_LINES_MAX = 40
_LINES_TOLD = 4

_Pointer = ctypes.c_void_p
_Text = ctypes.c_char_p
_Int = ctypes.c_int
_Size = ctypes.c_size_t

_PRINT = ctypes.CFUNCTYPE(_Int, _Int, _Text, _Pointer)
SAMPLE = ctypes.CFUNCTYPE(_Int, _Pointer, _Pointer, _Size)

# Name, type of the result, types of the arguments.
_SIGNATURES = (
    ("libbpf_set_print", _Pointer, (_PRINT,)),
    ("bpf_object__open_file", _Pointer, (_Text, _Pointer)),
    ("bpf_object__load", _Int, (_Pointer,)),
    ("bpf_object__close", None, (_Pointer,)),
    ("bpf_object__find_program_by_name", _Pointer, (_Pointer, _Text)),
    ("bpf_object__find_map_by_name", _Pointer, (_Pointer, _Text)),
    ("bpf_program__set_autoload", _Int, (_Pointer, ctypes.c_bool)),
    ("bpf_program__fd", _Int, (_Pointer,)),
    ("bpf_program__attach", _Pointer, (_Pointer,)),
    ("bpf_program__attach_cgroup", _Pointer, (_Pointer, _Int)),
    ("bpf_program__expected_attach_type", _Int, (_Pointer,)),
    ("bpf_prog_attach", _Int, (_Int, _Int, _Int, ctypes.c_uint32)),
    ("bpf_prog_get_fd_by_id", _Int, (ctypes.c_uint32,)),
    ("bpf_map_get_fd_by_id", _Int, (ctypes.c_uint32,)),
    ("bpf_link__pin", _Int, (_Pointer, _Text)),
    ("bpf_link__destroy", _Int, (_Pointer,)),
    ("bpf_map__fd", _Int, (_Pointer,)),
    ("bpf_map__key_size", ctypes.c_uint32, (_Pointer,)),
    ("bpf_map__value_size", ctypes.c_uint32, (_Pointer,)),
    ("bpf_map__reuse_fd", _Int, (_Pointer, _Int)),
    ("bpf_map__set_max_entries", _Int, (_Pointer, ctypes.c_uint32)),
    ("bpf_map_lookup_elem", _Int, (_Int, _Pointer, _Pointer)),
    ("bpf_map_update_elem", _Int, (_Int, _Pointer, _Pointer, ctypes.c_uint64)),
    ("bpf_map_delete_elem", _Int, (_Int, _Pointer)),
    ("bpf_map_get_next_key", _Int, (_Int, _Pointer, _Pointer)),
    ("bpf_prog_test_run_opts", _Int, (_Int, _Pointer)),
    ("ring_buffer__new", _Pointer, (_Int, SAMPLE, _Pointer, _Pointer)),
    ("ring_buffer__consume", _Int, (_Pointer,)),
    ("ring_buffer__free", None, (_Pointer,)),
)


class Libbpf:
    """The loaded library, and the last lines that it logged."""

    def __init__(self, library: ctypes.CDLL, libc: ctypes.CDLL) -> None:
        """Give each function its types and listen to what the library logs."""
        self._functions = {}
        for name, result, arguments in _SIGNATURES:
            function = library[name]
            function.restype = result
            function.argtypes = arguments
            self._functions[name] = function
        self._lines: deque[str] = deque(maxlen=_LOG_LINES_MAX)
        self._libc = libc
        self._print = _PRINT(self._heard)  # kept: the library calls it for as long as it lives
        self._functions["libbpf_set_print"](self._print)

    def integer(self, name: str, *arguments: object) -> int:
        """Call a function that returns a number; a negative one is an errno."""
        returned: int = self._functions[name](*arguments)
        return returned

    def pointer(self, name: str, *arguments: object) -> int | None:
        """Call a function that returns a pointer, None for NULL, or nothing."""
        returned: int | None = self._functions[name](*arguments)
        return returned

    def begin(self) -> None:
        """Forget what was logged so far: what follows is a step of its own."""
        self._lines.clear()

    def failure(self, what: str, code: int | None = None) -> ProbeError:
        """Return the error for a step that failed, with the last lines that were logged.

        `code` is the errno where the function returned it; else it is the thread's.
        """
        reason = os.strerror(ctypes.get_errno() if code is None else abs(code))
        told = " | ".join(list(self._lines)[-_LINES_TOLD:])
        return ProbeError(f"{what}: {reason}{f' ({told})' if told else ''}")

    def _heard(self, level: int, pattern: bytes, values: int | None) -> int:
        """Keep one warning; what is only informative is not looked at."""
        if level > _WARNING:
            return 0
        line = ctypes.create_string_buffer(_LINE_BYTES_MAX)
        self._libc.vsnprintf(line, _Size(_LINE_BYTES_MAX), pattern, _Pointer(values))
        self._lines.extend(line.value.decode(errors="replace").strip().splitlines())
        return 0


@cache
def _loaded() -> Libbpf:
    library = ctypes.CDLL(_NAME, use_errno=True)
    return Libbpf(library, ctypes.CDLL(None))


def libbpf() -> Libbpf:
    """Return the library, loaded at the first call.

    Raises:
        ProbeError: it is not installed, or another than the one that is meant.
    """
    try:
        return _loaded()
    except (OSError, AttributeError) as error:
        message = f"{_NAME} cannot be loaded (Debian's package is libbpf1)"
        raise ProbeError(message) from error

"""Object files of programs: loaded, attached, run once for a test, and pinned."""

import ctypes
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ebpf.probe.libbpf import Libbpf, libbpf
from ebpf.probe.maps import Map

_ALLOW_MULTI = 2


class _TestRunOptions(ctypes.Structure):
    """`struct bpf_test_run_opts`."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("data_in", ctypes.c_void_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_void_p),
        ("ctx_out", ctypes.c_void_p),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRun:
    """What a program answered to a made-up input, and how long one run took."""

    __test__ = False  # pytest: no suite

    answer: int
    nanoseconds: int


class Link:
    """A program at its place, which it leaves with this process unless the link is pinned."""

    def __init__(self, library: Libbpf, pointer: int, what: str) -> None:
        """Take a link that was just made."""
        self.library = library
        self._pointer: int | None = pointer
        self._what = what

    def pin(self, path: Path) -> None:
        """Keep the program at its place until `path`, in a bpf file system, is removed.

        Raises:
            ProbeError: the kernel refused.
        """
        code = self.library.integer("bpf_link__pin", self._pointer, os.fsencode(path))
        if code < 0:
            raise self.library.failure(f"cannot pin {self._what} at {path}", code)

    def close(self) -> None:
        """Let go of the link; a pinned program stays."""
        if self._pointer is not None:
            self.library.integer("bpf_link__destroy", self._pointer)
            self._pointer = None


class Object:
    """The programs and maps of one object file, in the kernel until closed."""

    def __init__(
        self,
        path: Path,
        *,
        shared: Mapping[str, Map] | None = None,
        without: Collection[str] = (),
        entries: Mapping[str, int] | None = None,
    ) -> None:
        """Load the file.

        `shared` are maps that take the place of those of the same name; `without` are programs
        that are not loaded; `entries` are sizes of maps, other than the file's.

        Raises:
            ProbeError: there is no libbpf, or the kernel refused some program or map.
        """
        self.library = libbpf()
        self.library.begin()
        self._path = path
        pointer = self.library.pointer("bpf_object__open_file", os.fsencode(path), None)
        if pointer is None:
            raise self.library.failure(f"cannot open {path.name}")
        self._pointer: int | None = pointer
        try:
            for name in without:
                self._check(name, "bpf_program__set_autoload", self._program(name), 0)
            for name, size in (entries or {}).items():
                self._check(name, "bpf_map__set_max_entries", self._found_map(name), size)
            for name, other in (shared or {}).items():
                self._check(name, "bpf_map__reuse_fd", self._found_map(name), other.fd)
            self._check("load", "bpf_object__load", pointer)
        except BaseException:
            self.close()
            raise

    def map(self, name: str) -> Map:
        """Return one of its maps.

        Raises:
            ProbeError: there is none of that name.
        """
        pointer = self._found_map(name)
        integer = self.library.integer
        return Map(
            self.library,
            name,
            fd=integer("bpf_map__fd", pointer),
            key=integer("bpf_map__key_size", pointer),
            value=integer("bpf_map__value_size", pointer),
        )

    def attach(self, name: str) -> Link:
        """Attach a program where its section says.

        Raises:
            ProbeError: there is no such program, or the kernel refused.
        """
        return self._link(name, "bpf_program__attach", self._program(name))

    def attach_group(self, name: str, group: Path) -> Link:
        """Attach a program to a directory of the v2 hierarchy and all beneath it.

        Raises:
            ProbeError: there is no such program, or the kernel refused.
        """
        try:
            directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self.library.failure(f"cannot open {group}", error.errno) from error
        try:
            return self._link(name, "bpf_program__attach_cgroup", self._program(name), directory)
        finally:
            os.close(directory)

    def hang(self, name: str, group: Path) -> None:
        """Attach a program to a directory of the v2 hierarchy for as long as that exists.

        There is no link to keep: what this process becomes makes no difference.

        Raises:
            ProbeError: there is no such program, or the kernel refused.
        """
        program = self._program(name)
        kind = self.library.integer("bpf_program__expected_attach_type", program)
        fd = self.library.integer("bpf_program__fd", program)
        try:
            directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self.library.failure(f"cannot open {group}", error.errno) from error
        try:
            self._check(name, "bpf_prog_attach", fd, directory, kind, _ALLOW_MULTI)
        finally:
            os.close(directory)

    def test_run(self, name: str, packet: bytes, *, repeat: int = 1) -> TestRun:
        """Run a program on a made-up packet, attached nowhere.

        Raises:
            ProbeError: there is no such program, or its kind cannot be run so.
        """
        data = ctypes.create_string_buffer(packet, len(packet))
        options = _TestRunOptions(
            sz=ctypes.sizeof(_TestRunOptions),
            data_in=ctypes.cast(data, ctypes.c_void_p),
            data_size_in=len(packet),
            repeat=repeat,
        )
        fd = self.library.integer("bpf_program__fd", self._program(name))
        self._check(name, "bpf_prog_test_run_opts", fd, ctypes.byref(options))
        return TestRun(answer=int(options.retval), nanoseconds=int(options.duration))

    def close(self) -> None:
        """Let go of the programs and maps; what is attached keeps its own."""
        if self._pointer is not None:
            self.library.pointer("bpf_object__close", self._pointer)
            self._pointer = None

    def _link(self, name: str, function: str, *arguments: object) -> Link:
        self.library.begin()
        pointer = self.library.pointer(function, *arguments)
        if pointer is None:
            raise self.library.failure(f"cannot attach {name}")
        return Link(self.library, pointer, name)

    def _program(self, name: str) -> int:
        return self._found("bpf_object__find_program_by_name", name)

    def _found_map(self, name: str) -> int:
        return self._found("bpf_object__find_map_by_name", name)

    def _found(self, function: str, name: str) -> int:
        pointer = self.library.pointer(function, self._pointer, name.encode())
        if pointer is None:
            raise self.library.failure(f"{self._path.name} has no {name}")
        return pointer

    def _check(self, what: str, function: str, *arguments: object) -> None:
        code = self.library.integer(function, *arguments)
        if code < 0:
            raise self.library.failure(f"{self._path.name}: {what}", code)

"""Maps and rings that programs in the kernel and this process share."""

import ctypes
import errno
from collections.abc import Callable, Iterator

from ebpf.errors import ProbeError
from ebpf.probe.libbpf import SAMPLE, Libbpf


class Map:
    """One map: keys and values are bytes of fixed lengths."""

    def __init__(self, library: Libbpf, name: str, *, fd: int, key: int, value: int) -> None:
        """Take a map that is loaded, and how many bytes a key and a value have."""
        self._library = library
        self._name = name
        self.fd = fd
        self.key_bytes = key
        self.value_bytes = value

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None where the map has none.

        Raises:
            ProbeError: the kernel refused.
        """
        found = ctypes.create_string_buffer(self.value_bytes)
        code = self._library.integer("bpf_map_lookup_elem", self.fd, self._key(key), found)
        if code == -errno.ENOENT:
            return None
        self._check("read", code)
        return found.raw

    def put(self, key: bytes, value: bytes) -> None:
        """Set a value.

        Raises:
            ProbeError: the kernel refused, as it does when the map is full.
        """
        assert len(value) == self.value_bytes
        stored = ctypes.create_string_buffer(value, self.value_bytes)
        self._check(
            "set", self._library.integer("bpf_map_update_elem", self.fd, self._key(key), stored, 0)
        )

    def remove(self, key: bytes) -> bool:
        """Remove a value; tell whether there was one.

        Raises:
            ProbeError: the kernel refused.
        """
        code = self._library.integer("bpf_map_delete_elem", self.fd, self._key(key))
        if code == -errno.ENOENT:
            return False
        self._check("remove from", code)
        return True

    def keys(self, *, most: int) -> Iterator[bytes]:
        """Yield the keys, `most` at the most; what comes or goes meanwhile may be missed.

        Where the last one that was yielded is gone the kernel begins anew: without a bound that
        could go on for as long as others write, and so some keys may come again.

        Raises:
            ProbeError: the kernel refused.
        """
        last: ctypes.Array[ctypes.c_char] | None = None
        for _ in range(most):
            following = ctypes.create_string_buffer(self.key_bytes)
            code = self._library.integer("bpf_map_get_next_key", self.fd, last, following)
            if code == -errno.ENOENT:
                return
            self._check("list", code)
            last = following
            yield following.raw

    def _key(self, key: bytes) -> ctypes.Array[ctypes.c_char]:
        assert len(key) == self.key_bytes
        return ctypes.create_string_buffer(key, self.key_bytes)

    def _check(self, verb: str, code: int) -> None:
        if code < 0:
            raise self._library.failure(f"cannot {verb} the map {self._name}", code)


class Ring:
    """A ring buffer, whose records are handed to one listener in the order of their arrival."""

    def __init__(self, library: Libbpf, source: Map, heard: Callable[[bytes], None]) -> None:
        """Listen from now on.

        Raises:
            ProbeError: the map is no ring, or cannot be shared with this process.
        """
        self._library = library
        self._heard = heard
        self._failed: Exception | None = None
        self._sample = SAMPLE(self._take)  # kept: the library calls it for as long as it lives
        ring = library.pointer("ring_buffer__new", source.fd, self._sample, None, None)
        if ring is None:
            raise library.failure("cannot listen to a ring")
        self._ring: int | None = ring

    def consume(self) -> int:
        """Hand over all that has arrived; return how many records that was.

        Raises:
            ProbeError: the ring cannot be read, or the listener failed.
        """
        count = self._library.integer("ring_buffer__consume", self._ring)
        failed, self._failed = self._failed, None
        if failed is not None:
            raise ProbeError("a record of the ring could not be taken") from failed
        if count < 0:
            raise self._library.failure("cannot read a ring", count)
        return count

    def close(self) -> None:
        """Listen no longer."""
        if self._ring is not None:
            self._library.pointer("ring_buffer__free", self._ring)
            self._ring = None

    def _take(self, _context: int | None, record: int, length: int) -> int:
        # An error must not cross the library, which would go on as if nothing had been.
        try:
            self._heard(ctypes.string_at(record, length))
        except Exception as error:  # noqa: BLE001  # told by `consume`
            self._failed = error
        return 0

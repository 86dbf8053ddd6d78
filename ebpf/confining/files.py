"""The programs that withhold what Landlock leaves open of a rule's paths."""

import os
import sys
from collections.abc import Iterable
from enum import IntFlag
from pathlib import Path

from ebpf.confining.places import domain_key, domain_of
from ebpf.probe.objects import Object
from governor.confines import Confines

OBJECT = Path(__file__).resolve().parent.parent / "programs" / "files.bpf.o"
FILES = ("withhold_open", "withhold_attributes", "withhold_code")

_BITS_BEFORE = 64  # the domain, which comes before the path
_PATH_BYTES = 240


class Right(IntFlag):
    """What is withheld of a path."""

    READ = 1
    EXECUTE = 2


def withheld_of(confines: Confines) -> dict[str, Right]:
    """Return what is withheld of each path, with what is withheld of those around it.

    The kernel finds the longest path that something lies beneath, and no other.
    """
    stated = [
        *((os.path.realpath(path), Right.READ | Right.EXECUTE) for path in confines.hidden),
        *((os.path.realpath(path), Right.EXECUTE) for path in confines.no_exec_from),
    ]
    found: dict[str, Right] = {}
    for path, _ in stated:
        found[path] = Right(0)
        for around, right in stated:
            if f"{path}/".startswith(f"{around}/"):
                found[path] |= right
    return found


def path_key(domain: int, path: str) -> bytes | None:
    """Return the key of a path and all beneath it; None of one that is too long for the kernel."""
    text = os.fsencode(f"{path}/")
    if len(text) > _PATH_BYTES:
        return None
    bits = (_BITS_BEFORE + len(text) * 8).to_bytes(4, sys.byteorder)
    return bits + domain_key(domain) + text.ljust(_PATH_BYTES, b"\0")


class FilePrograms:
    """The programs and their maps, loaded once for all domains; they stay as long as a group."""

    def __init__(self) -> None:
        """Load them.

        Raises:
            ProbeError: this kernel takes no programs at its hooks for security (BPF LSM).
        """
        self._object = Object(OBJECT)
        self._paths = self._object.map("paths")
        self._denials = self._object.map("file_denials")

    def hang(self, group: Path, confines: Confines) -> tuple[bytes, ...]:
        """Withhold from a group what its confines say; return the keys to give back at the end.

        Raises:
            ProbeError: the kernel refused.
        """
        domain = domain_of(group)
        keys: list[bytes] = []
        try:
            self._denials.put(domain_key(domain), bytes(8))
            for path, right in withheld_of(confines).items():
                key = path_key(domain, path)
                if key is not None:
                    self._paths.put(key, bytes([right]))
                    keys.append(key)
            for name in FILES:
                self._object.hang(name, group)
        except BaseException:
            self.forget(domain, keys)
            raise
        return tuple(keys)

    def denials(self, domain: int) -> int:
        """Return how often something was refused to a domain."""
        found = self._denials.get(domain_key(domain))
        return 0 if found is None else int.from_bytes(found, sys.byteorder)

    def forget(self, domain: int, keys: Iterable[bytes]) -> None:
        """Remove what was kept of a domain that is gone."""
        for key in keys:
            self._paths.remove(key)
        self._denials.remove(domain_key(domain))

    def unload(self) -> None:
        """Let go of them; those that hang on a group stay there."""
        self._object.close()

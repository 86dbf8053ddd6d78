"""What a lock file pins: names, versions, hashes, and who asks for each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;]+)"
    r"(?:\s*;\s*(?P<marker>.*?))?\s*\\?$"
)
_HASH = re.compile(r"^\s+--hash=sha256:(?P<digest>[0-9a-f]{64})")
_VIA = re.compile(r"^\s+#\s+(?:via\s+)?(?P<name>[A-Za-z0-9._-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One pinned package; `via` names those that ask for it."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    via: tuple[str, ...]


class LockError(Exception):
    """The lock file is not one that `make lock` writes."""


def read_lock(path: Path) -> tuple[Package, ...]:
    """Return what a lock file pins, in its order.

    Raises:
        LockError: a line is neither a pin, a hash nor a comment; or a pin has no hash.
    """
    packages = tuple(_packages(path))
    bare = [package.name for package in packages if not package.hashes]
    if bare:
        raise LockError(f"{path}: no hash for {', '.join(bare)}; run `make lock`")
    return packages


def _packages(path: Path) -> Iterator[Package]:
    pin: re.Match[str] | None = None
    hashes: list[str] = []
    via: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if digest := _HASH.match(line):
            hashes.append(digest["digest"])
        elif asker := _VIA.match(line):
            if asker["name"] != "via":
                via.append(asker["name"])
        elif line.strip() and not line.lstrip().startswith("#"):
            if pin is not None:
                yield _package(pin, hashes, via)
            pin, hashes, via = _PIN.match(line), [], []
            if pin is None:
                raise LockError(f"{path}:{number}: is no pinned package; run `make lock`")
    if pin is not None:
        yield _package(pin, hashes, via)


def _package(pin: re.Match[str], hashes: list[str], via: list[str]) -> Package:
    return Package(
        name=pin["name"],
        version=pin["version"],
        marker=pin["marker"] or "",
        hashes=tuple(hashes),
        via=tuple(via),
    )

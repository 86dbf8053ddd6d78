"""A disk of a file's own, made as root, that can be stopped and made to refuse what is written."""

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

# From <linux/fs.h>.
_FREEZE, _THAW = 0xC0045877, 0xC0045878
_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10
# Should this process die while the disk stands, nobody else would let it go on.
_THAW_LATER = """
import fcntl, os, sys, time
disk = os.open(sys.argv[1], os.O_RDONLY)
time.sleep(30)
fcntl.ioctl(disk, int(sys.argv[2]), 0)
"""


@dataclass(frozen=True)
class Disk:
    """A mounted disk."""

    path: Path

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let whoever writes or syncs wait, as a disk does that has hung up."""
        watch = [sys.executable, "-S", "-c", _THAW_LATER, str(self.path), str(_THAW)]
        disk = os.open(self.path, os.O_RDONLY)
        try:
            with subprocess.Popen(watch) as watching:
                fcntl.ioctl(disk, _FREEZE, 0)
                try:
                    yield
                finally:
                    fcntl.ioctl(disk, _THAW, 0)
                    watching.kill()
        finally:
            os.close(disk)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Refuse every write to the files, those that are open already too."""
        files = [file for file in self.path.rglob("*.db*") if file.suffix != ".db-shm"]
        assert files, "there is nothing that could be written"
        try:
            for file in files:
                _mark(file, is_immutable=True)
            yield
        finally:
            for file in files:
                _mark(file, is_immutable=False)


def _mark(file: Path, *, is_immutable: bool) -> None:
    opened = os.open(file, os.O_RDONLY)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(opened, _GET_FLAGS, bytes(8)))
        flags = flags | _IMMUTABLE if is_immutable else flags & ~_IMMUTABLE
        fcntl.ioctl(opened, _SET_FLAGS, struct.pack("l", flags))
    finally:
        os.close(opened)


@contextmanager
def disk_in_a_file(folder: Path) -> Iterator[Disk]:
    """Yield a disk of its own, or skip where none can be made."""
    image, at = folder / "image", folder / "disk"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    formatter = shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if os.geteuid() != 0 or formatter is None:
        pytest.skip("cannot make a disk here: it takes root and mkfs.ext4")
    subprocess.run([formatter, "-q", "-F", str(image)], check=True, timeout=60)
    mount = ["mount", "-o", "loop", str(image), str(at)]
    mounted = subprocess.run(mount, check=False, timeout=60, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted from a file here: {mounted.stderr.strip()}")
    try:
        yield Disk(at)
    finally:
        subprocess.run(["umount", str(at)], check=True, timeout=60)

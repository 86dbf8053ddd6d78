"""User-Mode Linux: a kernel that is a process, up in a second, with control groups version 2."""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.kernel.lab.guest import Errand, finished
from tests.kernel.lab.packages import LabError, Shelf, archive, find_busybox, run

# The release's own kernel knows no processor that is much younger than itself. The next one's
# needs that release's C library, which is put beside it.
NEXT = "testing"
PACKAGE = "user-mode-linux"
MEMORY_MB = 1024
DISK_BYTES = 64 << 20
BOOT_SECONDS_MAX = 60

INIT = """\
#!/bin/sh
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
{insmod}
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs dev dev
mkdir -p dev/pts dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs tmpfs run
mkdir run/lab
mount -t hostfs -o {shared} none run/lab
exec chroot . /bin/sh /run/lab/enter
"""


@dataclass(frozen=True, kw_only=True)
class Uml:
    """One User-Mode Linux kernel with what it needs to start."""

    kernel: Path
    modules: Path
    busybox: Path
    name: str = "uml"

    def command(self, folder: Path) -> Sequence[str]:
        """Return the command that starts it with `folder` shared and `enter` run in it."""
        overlay = next(self.modules.rglob("overlay.ko"), None)
        insmod = "" if overlay is None else f"{self.busybox} insmod {overlay}"
        init = folder / "init"
        init.write_text(INIT.format(insmod=insmod, shared=folder / "shared"))
        init.chmod(0o755)
        disk = folder / "disk"
        with disk.open("wb") as file:
            file.truncate(DISK_BYTES)
        run(["mkfs.ext4", "-q", "-F", str(disk)])
        return (
            *(str(self.kernel), f"mem={MEMORY_MB}M", f"ubd0={disk}", f"uml_dir={folder}"),
            *("rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"),
            *("con=null", "con0=null,fd:1", "quiet"),
        )


def find_uml(cache: Path) -> Uml:
    """Return a User-Mode Linux that starts on this processor.

    Raises:
        LabError: none does, or none can be fetched.
    """
    release = Shelf(cache=cache, suite=archive().release)
    busybox = find_busybox(release)
    own = _in(release.unpacked(PACKAGE), busybox)
    if _starts(own, cache):
        return own
    newer = _with_its_library(Shelf(cache=cache, suite=NEXT), release, busybox)
    if _starts(newer, cache):
        return newer
    raise LabError(f"neither {archive().release}'s nor {NEXT}'s {PACKAGE} starts here")


def _in(tree: Path, busybox: Path) -> Uml:
    return Uml(
        kernel=tree / "usr" / "bin" / "linux.uml",
        modules=tree / "usr" / "lib" / "uml" / "modules",
        busybox=busybox,
    )


def _with_its_library(shelf: Shelf, release: Shelf, busybox: Path) -> Uml:
    """Return the kernel of another release, bound to the C library of that release."""
    uml = _in(shelf.unpacked(PACKAGE), busybox)
    bound = uml.kernel.with_name("linux.bound")
    if not bound.exists():
        library = shelf.unpacked("libc6")
        loader = next(library.rglob("ld-linux-x86-64.so.2")).resolve()
        patchelf = release.unpacked("patchelf") / "usr" / "bin" / "patchelf"
        draft = bound.with_suffix(f".{os.getpid()}")
        shutil.copy2(uml.kernel, draft)
        folder = str(loader.parent)
        run([str(patchelf), "--set-interpreter", str(loader), "--set-rpath", folder, str(draft)])
        draft.rename(bound)
    return replace(uml, kernel=bound)


def _starts(uml: Uml, cache: Path) -> bool:
    """Tell whether the kernel runs a command on this processor; asked once for each of them."""
    verdicts = cache / "verdicts.json"
    known = json.loads(verdicts.read_text()) if verdicts.exists() else {}
    key = f"{uml.kernel} {_processor()}"
    if key not in known:
        errand = Errand(argv=("true",), cwd=Path("/"), seconds_max=BOOT_SECONDS_MAX)
        try:
            with finished(uml, errand) as end:
                known[key] = end.exit_code == 0
        except LabError:
            known[key] = False
        verdicts.write_text(json.dumps(known, indent=1))
    return bool(known[key])


def _processor() -> str:
    """Return a short name of what the processor is capable of."""
    flags = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "flags" in line]
    return hashlib.sha256(flags[0].encode()).hexdigest()[:16]

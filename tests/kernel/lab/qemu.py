"""QEMU with a stock Debian kernel, which has everything, at a twelfth of the speed."""

import lzma
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kernel.lab.packages import LabError, Shelf, archive, find_busybox, run

EMULATOR = "qemu-system-x86_64"
PACKAGE = "linux-image-amd64"
MEMORY_MB = 1536
DISK_BYTES = 256 << 20

# In the order in which they are loaded. What a kernel has built in has no file.
MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"),
    *("netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "overlay", "virtio_blk"),
    *("crc16", "mbcache", "jbd2", "crc32c_generic", "libcrc32c", "ext4", "virtio-rng"),
)
KERNEL_WORDS = (
    "console=ttyS0 quiet loglevel=3 panic=-1 psi=1 mitigations=off nokaslr audit=0"
    " random.trust_cpu=on lsm=landlock,lockdown,yama,bpf"
)

INIT = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /below /over /root
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for one in $(cat /modules/order); do insmod /modules/$one || echo "no module $one"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 below /below
mount -t tmpfs -o size=70% tmpfs /over
mkdir /over/upper /over/work
mount -t overlay -o lowerdir=/below,upperdir=/over/upper,workdir=/over/work overlay /root
for one in proc sys dev; do mount --move /$one /root/$one; done
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts devpts /root/dev/pts
mount -t tmpfs tmpfs /root/dev/shm
mount -t tmpfs tmpfs /root/run
mkdir /root/run/lab
mount -t 9p -o trans=virtio,version=9p2000.L,rw,cache=none,msize=512000 shared /root/run/lab
exec switch_root /root /bin/sh /run/lab/enter
"""


@dataclass(frozen=True, kw_only=True)
class Qemu:
    """One kernel for the emulator."""

    kernel: Path
    modules: Path
    busybox: Path
    name: str = "qemu"

    def command(self, folder: Path) -> Sequence[str]:
        """Return the command that starts it with `folder` shared and `enter` run in it."""
        first = _first_files(folder, modules=self.modules, busybox=self.busybox)
        disk = folder / "disk"
        with disk.open("wb") as file:
            file.truncate(DISK_BYTES)
        shared = "security_model=none"
        return (
            *(EMULATOR, "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1"),
            *("-m", str(MEMORY_MB), "-nodefaults", "-display", "none", "-no-reboot"),
            *("-net", "none", "-serial", "stdio", "-append", KERNEL_WORDS),
            *("-kernel", str(self.kernel), "-initrd", str(first)),
            *("-fsdev", f"local,id=below,path=/,{shared},readonly=on,multidevs=remap"),
            *("-device", "virtio-9p-pci,fsdev=below,mount_tag=below"),
            *("-fsdev", f"local,id=shared,path={folder / 'shared'},{shared}"),
            *("-device", "virtio-9p-pci,fsdev=shared,mount_tag=shared"),
            *("-drive", f"file={disk},if=none,id=disk,format=raw,cache=unsafe"),
            *("-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci"),
        )


def find_qemu(cache: Path) -> Qemu:
    """Return the release's kernel, ready for the emulator.

    Raises:
        LabError: there is no emulator, or no kernel can be fetched.
    """
    if shutil.which(EMULATOR) is None:
        raise LabError(f"needs {EMULATOR} (Debian package qemu-system-x86)")
    release = Shelf(cache=cache, suite=archive().release)
    tree = _kernel_tree(release)
    return Qemu(
        kernel=_only(tree, "vmlinuz-*"),
        modules=_only(tree, "modules.order").parent,
        busybox=find_busybox(release),
    )


def _kernel_tree(release: Shelf) -> Path:
    """Return the kernel that was fetched before, else the one that the release has now."""
    kept = release.cache / release.suite
    before = sorted(path for path in kept.glob("linux-image-*") if path.is_dir())
    return before[-1] if before else release.unpacked(release.first_dependency(PACKAGE))


def _only(tree: Path, pattern: str) -> Path:
    found = next(tree.rglob(pattern), None)
    if found is None:
        raise LabError(f"{tree.name} has no {pattern}")
    return found


def _first_files(folder: Path, *, modules: Path, busybox: Path) -> Path:
    """Write the archive from which the kernel starts; return its path."""
    root = folder / "first"
    (root / "modules").mkdir(parents=True)
    (root / "bin").mkdir()
    shutil.copy2(busybox, root / "bin" / "busybox")
    order = [name for name in MODULES if _unpack_module(modules, name, root / "modules")]
    (root / "modules" / "order").write_text("\n".join(order))
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    packed = folder / "first.cpio"
    run([str(busybox), "sh", "-c", f"cd {root} && find . | {busybox} cpio -o -H newc > {packed}"])
    return packed


def _unpack_module(modules: Path, name: str, into: Path) -> bool:
    """Put a module where the kernel finds it, not compressed; tell whether there is such a file."""
    for path in modules.rglob(f"{name}.ko*"):
        data = path.read_bytes()
        (into / name).write_bytes(lzma.decompress(data) if path.suffix == ".xz" else data)
        return True
    return False

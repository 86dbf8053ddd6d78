"""The program that compiles one probe with bcc and keeps it in the kernel while it runs.

It is run by the system's own interpreter, which has bcc (Debian's python3-bpfcc), and imports
nothing of ours. On standard input it takes one line of JSON, and answers with one; then it stays
until its input ends.

Where the headers of the running kernel are not installed, those of another one would let a probe
read the kernel's structures at wrong places in silence. Then a tree is made of what user space
knows of the kernel: with it no such structure has any members, and reading one does not compile.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

_COUNTING = """
BPF_HASH(flyball_counts, u64, u64, 4096);
static inline void flyball_add(u64 domain, u64 amount) {
    u64 *found = flyball_counts.lookup(&domain);
    if (found) __sync_fetch_and_add(found, amount);
}
#define flyball_count(amount) flyball_add(bpf_get_current_cgroup_id(), amount)
#define flyball_count_packet(skb, amount) flyball_add(bpf_skb_cgroup_id(skb), amount)
#line 1
"""

# What bcc's own headers and the tracepoints' structures need of the kernel's.
_TYPES = """
#pragma once
#include <linux/types.h>
#define CONFIG_BPF_SYSCALL 1
typedef __u8 u8; typedef __u16 u16; typedef __u32 u32; typedef __u64 u64;
typedef __s8 s8; typedef __s16 s16; typedef __s32 s32; typedef __s64 s64;
typedef _Bool bool;
typedef unsigned long uintptr_t;
typedef __kernel_size_t size_t; typedef __kernel_ssize_t ssize_t;
typedef __kernel_pid_t pid_t; typedef __kernel_uid32_t uid_t; typedef __kernel_gid32_t gid_t;
typedef __kernel_loff_t loff_t; typedef __kernel_clockid_t clockid_t; typedef u32 dev_t;
typedef unsigned short umode_t; typedef unsigned int fmode_t; typedef unsigned int gfp_t;
typedef unsigned int qid_t; typedef int key_t; typedef u64 sector_t; typedef u64 blkcnt_t;
"""

_GROUP_PROGRAMS = ("egress", "ingress")
_NEW_MOUNTS = 0x00020000
_PRIVATE_BELOW = (1 << 18) | (1 << 14)


class _RefusedError(Exception):
    """The probe cannot be run, for the reason that is the message."""


def main() -> None:
    """Answer one request, then wait for the end of the input."""
    request = json.loads(sys.stdin.readline())
    try:
        answer, kept = _run(request)
    except _RefusedError as error:
        answer, kept = {"error": str(error)}, None
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    if kept is not None:
        sys.stdin.read()


def _run(request: dict[str, str | None]) -> tuple[dict[str, object], object]:
    compiler = _compiler()
    _see_tracepoints()
    with tempfile.TemporaryDirectory(prefix="flyball-probe-") as folder:
        headers, kind = _headers(request["headers"], Path(folder))
        if headers is not None:
            os.putenv("BCC_KERNEL_SOURCE", str(headers))
        source = f"{_COUNTING}{request['source']}"
        names = [name for name in _GROUP_PROGRAMS if f"int {name}(" in source]
        try:
            probe = compiler(text=source)
            programs = {name: probe.load_func(name, compiler.CGROUP_SKB) for name in names}
        except Exception as error:
            raise _RefusedError(f"it cannot be compiled and loaded: {error}") from error
    counts = _id_of(probe["flyball_counts"].map_fd, "map_id")
    loaded = {name: _id_of(program.fd, "prog_id") for name, program in programs.items()}
    return {"counts": counts, "programs": loaded, "headers": kind}, (probe, programs)


def _compiler() -> Any:
    """Return bcc's class; a package of another kind has the same name."""
    try:
        import bcc  # noqa: PLC0415 - whether it is there is what is to be found out
    except ImportError as error:
        raise _RefusedError(
            "bcc is not installed for the system's Python; on Debian: apt install python3-bpfcc"
        ) from error
    found = getattr(bcc, "BPF", None)
    if found is None or not hasattr(found, "attach_tracepoint"):
        raise _RefusedError(
            f"{bcc.__file__} is another package of that name, not the compiler for the kernel's "
            "programs; on Debian that is python3-bpfcc"
        )
    return found


def _see_tracepoints() -> None:
    """Mount the list of tracepoints where it is missing, for this process alone."""
    place = "/sys/kernel/tracing"
    if any(Path(seen, "events").is_dir() for seen in (place, "/sys/kernel/debug/tracing")):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.unshare(_NEW_MOUNTS) != 0
        or libc.mount(b"none", b"/", None, _PRIVATE_BELOW, None) != 0
        or libc.mount(b"tracefs", place.encode(), b"tracefs", 0, None) != 0
    ):
        number = ctypes.get_errno()
        raise _RefusedError(f"{place} cannot be mounted: {os.strerror(number)}")


def _headers(wanted: str | None, folder: Path) -> tuple[Path | None, str]:
    """Return the tree to compile against, None for bcc's own choice, and what it is called."""
    release = os.uname().release
    if wanted is not None:
        found = _release_of(Path(wanted))
        if found != release:
            raise _RefusedError(
                f"{wanted} has the headers of {found or 'no kernel'}, and this is {release}: "
                "structures would be read at wrong places"
            )
        return Path(wanted), f"of {release}"
    usual = (Path("/lib/modules", release, "build"), Path("/sys/kernel/kheaders.tar.xz"))
    if any(place.exists() for place in usual):
        return None, f"of {release}"
    return _user_headers(folder), "of user space alone"


def _release_of(tree: Path) -> str | None:
    try:
        return (tree / "include" / "config" / "kernel.release").read_text().strip()
    except OSError:
        return None


def _user_headers(folder: Path) -> Path:
    """Return a tree in which the kernel's own structures do not exist."""
    system = Path("/usr/include")
    machine = [path for path in (system / "asm", *system.glob("*-linux-gnu*/asm")) if path.is_dir()]
    if not (system / "linux" / "types.h").exists() or not machine:
        raise _RefusedError("the headers of user space are missing; on Debian: linux-libc-dev")
    user = folder / "include" / "uapi"
    (user / "linux").mkdir(parents=True)
    for path in (system / "linux").iterdir():
        (user / "linux" / path.name).symlink_to(path)
    (user / "linux" / "bpf.h").unlink()
    (user / "linux" / "bpf.h").touch()  # bcc brings its own
    (user / "asm-generic").symlink_to(system / "asm-generic")
    (user / "asm").symlink_to(machine[0])
    for name, text in (
        ("linux/kconfig.h", _TYPES),
        ("linux/log2.h", ""),
        ("asm/page.h", f"#define PAGE_SIZE {os.sysconf('SC_PAGE_SIZE')}\n"),
    ):
        place = folder / "include" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def _id_of(descriptor: int, what: str) -> int:
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == what:
            return int(value)
    raise _RefusedError(f"the kernel does not say the {what} of what was loaded")


if __name__ == "__main__":
    main()

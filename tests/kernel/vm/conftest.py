"""What runs here needs a stock kernel with BTF, pressure and BPF LSM: QEMU has one."""

import os
from pathlib import Path

import pytest

HOW = "python -m tests.kernel.lab qemu tests/kernel/vm"


@pytest.fixture(scope="session", autouse=True)
def _kernel() -> None:
    modules = Path("/sys/kernel/security/lsm")
    has_lsm = modules.exists() and "bpf" in modules.read_text().split(",")
    has_types = Path("/sys/kernel/btf/vmlinux").exists()
    if os.geteuid() != 0 or not (has_lsm and has_types):
        pytest.skip(f"needs root and a kernel with BTF and BPF LSM: {HOW}")

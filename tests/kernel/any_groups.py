"""A host whose control groups can be written, of whichever kind they are."""

import os

import pytest

from ebpf.capability import BackendKind, Host, probe_host


def host_with_groups() -> Host:
    """Return this host, or skip the test where commands stand in no groups."""
    if os.geteuid() != 0:
        pytest.skip("needs root: control groups are made and another user is become")
    found = probe_host()
    if found.backend is BackendKind.RLIMIT:
        pytest.skip(f"needs control groups: {found.capability('memory').why}")
    return found

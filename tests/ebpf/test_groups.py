"""Control groups that somebody else ends at the same time."""

from pathlib import Path

import pytest

from ebpf.domains.groups import kill_group
from ebpf.errors import DomainError

pytestmark = pytest.mark.anyio


async def test_a_group_that_was_removed_meanwhile_is_ended(tmp_path: Path) -> None:
    await kill_group(tmp_path / "gone")


async def test_a_group_that_cannot_be_killed_is_told(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=r"cgroup\.kill cannot be set"):
        await kill_group(tmp_path)

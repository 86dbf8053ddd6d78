"""Why a host without control groups holds less: at length in one place, else in a few words."""

from pathlib import Path

from ebpf.capability import probe_host
from ebpf.containment import Containment
from ebpf.promises import isolated
from governor.limits import UNLIMITED
from tests.ebpf.commands import limits

CONTAINED = Containment(contained=True, by="landlock 7", why="", carve=None)


def test_one_row_alone_says_what_was_tried(tmp_path: Path) -> None:
    host = probe_host(proc=tmp_path)

    telling = [row.name for row in host.capabilities if "v2: no hierarchy" in row.why]

    assert telling == ["groups"]
    assert host.capability("wall").why.startswith("no control groups that ")


def test_a_reason_that_several_limits_share_is_said_once(tmp_path: Path) -> None:
    found = isolated(probe_host(proc=tmp_path), limits(), (UNLIMITED, UNLIMITED), CONTAINED)

    assert found.why.count("no control groups that ") == 1
    assert found.why.count("sampled every") == 1

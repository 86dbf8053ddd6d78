"""What programs withhold of files beyond Landlock, on kernels that take them (BPF LSM)."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ebpf.confining.confiner import Confiner, Held
from ebpf.confining.files import FILES, Right, path_key, withheld_of
from ebpf.confining.rows import why_no_file_programs
from governor.confines import Confines

GROUPS = next(
    (
        path
        for path in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
        if (path / "cgroup.procs").exists()
    ),
    None,
)


@pytest.fixture
def group() -> Iterator[Path]:
    """Yield a new group of the v2 hierarchy, outside of what any executor makes."""
    if os.geteuid() != 0 or GROUPS is None:
        pytest.skip("needs root and the v2 hierarchy")
    why = why_no_file_programs(GROUPS)
    if why:
        pytest.skip(f"needs BPF LSM: {why}")
    made = GROUPS / f"flyball-test-files-{os.getpid()}"
    made.mkdir()
    yield made
    made.rmdir()


def in_group(group: Path, script: str) -> subprocess.CompletedProcess[str]:
    enter = f'echo 0 > {group}/cgroup.procs; exec sh -c "$0"'
    return subprocess.run(
        ["/bin/sh", "-c", enter, script], capture_output=True, text=True, check=False
    )


def held(group: Path, confines: Confines) -> Held:
    async def hold() -> Held:
        return await Confiner().hold(group, confines, programs=FILES)

    return anyio.run(hold)


@pytest.mark.kernel
@pytest.mark.requirement("files.programs-close-gaps")
def test_neither_names_nor_attributes_of_what_is_hidden_are_told(
    group: Path, tmp_path: Path
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "secret").write_text("words")
    (tmp_path / "hidden-not").write_text("open")
    holding = held(group, Confines(hidden=(str(hidden),)))

    for script in (f"ls {hidden}", f"cat {hidden}/secret", f"stat {hidden}/secret"):
        assert in_group(group, script).returncode != 0, script
    assert in_group(group, f"cat {tmp_path}/hidden-not").stdout == "open"
    assert subprocess.run(["cat", hidden / "secret"], check=True, capture_output=True).stdout
    assert holding.refused()[0].endswith("refused by the rule")
    holding.close()


@pytest.mark.kernel
@pytest.mark.requirement("files.programs-close-gaps")
def test_no_code_is_mapped_from_where_nothing_is_started(group: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    loader = next(Path("/lib64").glob("ld-linux*.so.*"), None)
    if loader is None:
        pytest.skip("needs a loader that can be called by its name")
    by_loader = f"{loader} {program}"

    assert in_group(group, by_loader).returncode == 0
    holding = held(group, Confines(no_exec_from=(str(tmp_path),)))
    assert in_group(group, by_loader).returncode != 0
    assert in_group(group, f"{loader} /bin/true").returncode == 0
    holding.close()


def test_a_path_inside_another_has_the_rights_of_both() -> None:
    confines = Confines(no_exec_from=("/srv",), hidden=("/srv/inner",))

    assert withheld_of(confines) == {
        "/srv": Right.EXECUTE,
        "/srv/inner": Right.READ | Right.EXECUTE,
    }


def test_a_path_ends_in_a_slash_so_that_it_begins_no_other_name() -> None:
    key = path_key(3, "/srv/a")

    assert key is not None
    assert key[:4] == (64 + len("/srv/a/") * 8).to_bytes(4, "little")
    assert key[12:].rstrip(b"\0") == b"/srv/a/"
    assert path_key(3, "/" + "x" * 240) is None

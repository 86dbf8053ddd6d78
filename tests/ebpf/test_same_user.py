"""Commands of a sidecar that is not root: the same user, behind Landlock."""

import os
from pathlib import Path

import anyio
import pytest

from ebpf.capability import Host
from ebpf.executor import LocalExecutor
from tests.ebpf.commands import limits, shell

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("unprivileged")]


@pytest.fixture
def work_dir(tmp_path: Path, host: Host) -> str:
    if not host.landlock_abi:
        pytest.skip("this kernel has no Landlock")
    path = tmp_path / "work"
    path.mkdir()
    return str(path)


async def outcome(executor: LocalExecutor, script: str, cwd: str) -> tuple[int | None, bytes]:
    with anyio.fail_after(60):
        result = await executor.run("call", shell(script, cwd=cwd), limits())
    assert result.isolated.contained
    return result.exit_code, result.stdout


async def test_the_state_directory_cannot_be_read_written_or_emptied(
    executor: LocalExecutor, state_dir: Path, work_dir: str
) -> None:
    secret = state_dir / "token"
    secret.write_text("s3cret")

    read, seen = await outcome(executor, f"cat {secret}", work_dir)
    written, _ = await outcome(executor, f"echo x > {secret}", work_dir)
    made, _ = await outcome(executor, f"echo x > {state_dir}/new", work_dir)
    removed, _ = await outcome(executor, f"rm -f {secret}", work_dir)
    moved, _ = await outcome(executor, f"mv {state_dir} {state_dir}-away", work_dir)

    assert read != 0
    assert seen == b""
    assert 0 not in (written, made, removed, moved)
    assert secret.read_text() == "s3cret"


async def test_a_link_to_the_state_directory_that_an_earlier_call_left_opens_nothing(
    executor: LocalExecutor, state_dir: Path, work_dir: str
) -> None:
    (state_dir / "token").write_text("s3cret")
    (state_dir.parent / "link").symlink_to(state_dir)
    (state_dir.parent / "top").symlink_to("/")

    code, seen = await outcome(executor, f"cat {state_dir.parent}/link/token", work_dir)

    assert code != 0
    assert seen == b""


async def test_files_can_be_made_where_the_command_works(
    executor: LocalExecutor, work_dir: str
) -> None:
    script = "mkdir a && echo x > a/b && mv a/b c && cat c && ls / > /dev/null"

    code, seen = await outcome(executor, script, work_dir)

    assert code == 0
    assert seen == b"x\n"


async def test_the_sidecar_can_be_neither_read_nor_signalled(
    executor: LocalExecutor, work_dir: str, host: Host
) -> None:
    read, _ = await outcome(executor, f"cat /proc/{os.getpid()}/environ", work_dir)
    signalled, _ = await outcome(executor, f"kill -0 {os.getpid()}", work_dir)

    assert read != 0
    assert signalled != 0 or host.landlock_abi < 6


@pytest.mark.usefixtures("work_dir")
async def test_a_command_that_works_around_the_state_directory_is_not_called_contained(
    executor: LocalExecutor, state_dir: Path
) -> None:
    around = str(state_dir.parent)

    with anyio.fail_after(60):
        result = await executor.run("call", shell("echo x > made", cwd=around), limits())

    assert result.exit_code == 0
    assert not result.isolated.contained
    assert result.isolated.why

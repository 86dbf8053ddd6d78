"""What a rule withholds is withheld from agents too, or it is said that it is not."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ebpf.attachment import Attachment
from ebpf.capability import Capability, CapabilityState, Host
from ebpf.executor import LocalExecutor
from ebpf.launching import agent_argv
from governor.amounts import Unit
from governor.call import Enforcement
from governor.confines import Confines
from governor.limits import ExecutionLimits
from tests.ebpf.commands import limits

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]


class Unused:
    """Says that it counts what is sent; there is no group on which it could."""

    measures = frozenset({Unit.EGRESS_BYTES})

    def attach(self, name: str, group: Path, limits: ExecutionLimits) -> Attachment:
        raise AssertionError(name, group, limits)


async def test_an_agent_cannot_read_what_its_rule_hides(
    executor: LocalExecutor, open_dir: Path
) -> None:
    hidden = open_dir / "hidden"
    hidden.mkdir()
    for name in ("hidden/key", "open"):
        (open_dir / name).write_text("text of " + name)
        (open_dir / name).chmod(0o644)
    hidden.chmod(0o755)
    held = limits(confines=Confines(hidden=(str(hidden),)))
    with anyio.fail_after(60):
        async with executor.agent("agent", held, cwd="/", user="nobody") as agent:
            account = agent.inside.account
            assert account is not None
            argv = agent_argv(
                ("/bin/cat", str(open_dir / "open"), str(hidden / "key")),
                agent.inside.entry,
                account=(account.uid, account.gid),
                carve=agent.inside.containment.carve,
            )
            said = await anyio.run_process(argv, check=False)

    assert b"Permission denied" in said.stderr
    assert said.stdout == b"text of open"


async def test_an_agent_that_becomes_another_user_has_its_launchers_environment(
    executor: LocalExecutor,
) -> None:
    with anyio.fail_after(60):
        async with executor.agent("agent", limits(), cwd="/", user="nobody") as agent:
            account = agent.inside.account
            assert account is not None
            argv = agent_argv(
                ("/bin/sh", "-c", "id -un; echo $WORD"),
                agent.inside.entry,
                account=(account.uid, account.gid),
                carve=agent.inside.containment.carve,
            )
            said = await anyio.run_process(argv, env={"WORD": "kept"}, check=False)

    assert said.stdout.decode().split() == ["nobody", "kept"]


@pytest.mark.parametrize(
    "asked",
    [
        replace(limits(), egress_bytes=1),
        limits(confines=Confines(network=())),
    ],
)
async def test_what_only_a_group_can_hold_does_not_hold_an_agent_that_is_in_none(
    executor: LocalExecutor, asked: ExecutionLimits
) -> None:
    executor._attachers = (Unused(),)
    with anyio.fail_after(60):
        async with (
            executor.agent("with", asked, cwd="/", is_joinable=False) as confined,
            executor.agent("without", limits(), cwd="/", is_joinable=False) as free,
        ):
            found = (confined.isolated.enforcement, free.isolated.enforcement)

    assert found == (Enforcement.NONE, Enforcement.OBSERVED)


async def test_a_filter_that_agents_do_not_have_holds_none_of_them(
    host: Host, state_dir: Path
) -> None:
    by_filter = Capability(name="no_network", state=CapabilityState.ENFORCED, by="seccomp", why="")
    without = host.without("network", "there is no libbpf")
    kept = tuple(by_filter if one.name == "no_network" else one for one in without.capabilities)
    executor = LocalExecutor(
        host=replace(without, capabilities=kept), state_dir=state_dir, user="nobody"
    )
    asked = limits(confines=Confines(network=()))

    with anyio.fail_after(60):
        async with executor.agent("agent", asked, cwd="/", user="nobody") as agent:
            held = agent.isolated

    assert held.enforcement is Enforcement.NONE
    assert "no filter of system calls" in held.why

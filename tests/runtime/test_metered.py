"""Whether a sidecar meters its commands, by what the host can do."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ebpf.capability import BackendKind, Capability, CapabilityState, Host
from ebpf.errors import ProbeError
from runtime import metered as module
from runtime.configuration.machine import Local
from runtime.metered import metered

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("metering.says-what-is-missing")]


def host(state: CapabilityState) -> Host:
    found = Capability(name="egress_bytes", state=state, by="programs", why="")
    return Host(backend=BackendKind.HYBRID, capabilities=(found,), is_root=True, landlock_abi=0)


async def test_a_host_that_cannot_meter_has_nothing_hung_on_its_domains(tmp_path: Path) -> None:
    unable = host(CapabilityState.ABSENT)

    async with AsyncExitStack() as stack:
        found, attachers = metered(stack, unable, state_dir=tmp_path, terms=Local())

    assert found is unable
    assert attachers == ()


async def test_a_host_that_fails_after_it_was_probed_loses_the_capability_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise ProbeError("the kernel is full")

    monkeypatch.setattr(module, "Metering", refuse)

    async with AsyncExitStack() as stack:
        found, attachers = metered(
            stack,
            host(CapabilityState.ENFORCED),
            state_dir=tmp_path,
            terms=Local(),
        )

    assert attachers == ()
    assert found.capability("egress_bytes").state is CapabilityState.ABSENT
    assert found.capability("egress_bytes").why == "the kernel is full"

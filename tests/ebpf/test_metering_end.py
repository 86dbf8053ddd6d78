"""What is shut when the wait for unsent data is given up, and how long a map is listed."""

from types import SimpleNamespace

import anyio
import pytest

from ebpf import metering
from ebpf.metering import MeteredDomain
from ebpf.probe.layout import Over
from ebpf.probe.maps import Map

pytestmark = pytest.mark.anyio


class Endless:
    """A library for which every key is followed by another, as while others write."""

    def integer(self, _name: str, *_arguments: object) -> int:
        return 0


class Metered:
    """Counts one domain, which has sent something; remembers what was shut."""

    def __init__(self) -> None:
        self.shut_ids: list[int] = []

    def counted(self, _group_id: int) -> SimpleNamespace:
        return SimpleNamespace(egress_packets=1, over=Over.NONE)

    def shut(self, group_id: int) -> None:
        self.shut_ids.append(group_id)


async def test_a_domain_is_shut_though_the_wait_for_what_it_sends_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metering, "unsent_bytes", lambda _: 1)
    counts = Metered()
    domain = MeteredDomain(counts, 7)  # type: ignore[arg-type] # nothing else of it is used

    with anyio.move_on_after(0.05):
        await domain.drain(seconds_max=60)
    given_up = list(counts.shut_ids)
    with anyio.fail_after(60):
        await domain.drain(seconds_max=0)

    assert (given_up, counts.shut_ids) == ([], [7])


def test_a_map_into_which_others_write_is_listed_within_a_bound() -> None:
    library = Endless()
    written = Map(library, "denied", fd=0, key=8, value=8)  # type: ignore[arg-type] # a double

    assert len(list(written.keys(most=5))) == 5

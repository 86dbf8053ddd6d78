"""Energy from the processors' counters: read whole, attributed by processor time."""

from pathlib import Path

import pytest

from ebpf.energy import EnergyCounters, attributed_mj, drawn_mj
from ebpf.errors import EnergyUnknownError
from tests.ebpf.powercap import RANGE_UJ, FakePowercap


@pytest.fixture
def host(tmp_path: Path) -> FakePowercap:
    found = FakePowercap(tmp_path)
    found.busy(user=0)
    return found


def test_the_packages_are_added_up(host: FakePowercap) -> None:
    host.packages({"intel-rapl:0": 1_000_000, "intel-rapl:1": 5_000_000})
    began = host.counters.read(now_ms=0)
    host.packages({"intel-rapl:0": 4_000_000, "intel-rapl:1": 6_500_000})

    drawn = drawn_mj(began, host.counters.read(now_ms=1_000))

    assert drawn == 4_500


def test_parts_of_a_package_the_platform_and_the_second_interface_are_not_counted_twice(
    host: FakePowercap,
) -> None:
    host.packages({"intel-rapl:0": 0})
    others = {
        "intel-rapl:0:0": "core",
        "intel-rapl:0:1": "uncore",
        "intel-rapl:0:2": "dram",
        "intel-rapl:1": "psys",
        "intel-rapl-mmio:0": "package-0",
    }
    for zone, name in others.items():
        host.zone(zone, name, 0)
    began = host.counters.read(now_ms=0)
    host.packages({"intel-rapl:0": 2_000_000})
    for zone, name in others.items():
        host.zone(zone, name, 9_000_000)

    drawn = drawn_mj(began, host.counters.read(now_ms=1_000))

    assert drawn == 2_000


def test_a_host_with_the_second_interface_alone_is_read_through_that(host: FakePowercap) -> None:
    host.zone("intel-rapl-mmio:0", "package-0", 0)

    assert set(host.counters.read(now_ms=0).packages) == {"intel-rapl-mmio:0"}


def test_a_counter_that_began_anew_goes_on_from_its_range(host: FakePowercap) -> None:
    host.packages({"intel-rapl:0": RANGE_UJ - 1_000_000})
    began = host.counters.read(now_ms=0)
    host.packages({"intel-rapl:0": 3_000_000})

    drawn = drawn_mj(began, host.counters.read(now_ms=1_000))

    assert drawn == 4_000


def test_an_interval_in_which_a_counter_can_begin_anew_twice_is_unknown(
    host: FakePowercap,
) -> None:
    host.packages({"intel-rapl:0": 0})
    began = host.counters.read(now_ms=0)

    with pytest.raises(EnergyUnknownError, match="more than once"):
        drawn_mj(began, host.counters.read(now_ms=140_000))


def test_a_package_that_appears_meanwhile_makes_the_sum_unknown(host: FakePowercap) -> None:
    host.packages({"intel-rapl:0": 0})
    began = host.counters.read(now_ms=0)
    host.packages({"intel-rapl:1": 0})

    with pytest.raises(EnergyUnknownError, match="came or went"):
        drawn_mj(began, host.counters.read(now_ms=1_000))


def test_a_call_is_attributed_its_share_of_the_busy_time(host: FakePowercap) -> None:
    host.packages({"intel-rapl:0": 0})
    host.busy(user=1_000, idle=7_000, iowait=500, guest=900)
    began = host.counters.read(now_ms=0)
    host.packages({"intel-rapl:0": 10_000_000})
    host.busy(user=1_200, idle=9_000, iowait=700, guest=1_100)  # busy for 2 s

    share = attributed_mj(began, host.counters.read(now_ms=2_000), cpu_ms=500)

    assert share == 2_500


def test_nobody_is_attributed_more_than_everything(host: FakePowercap) -> None:
    host.packages({"intel-rapl:0": 0})
    began = host.counters.read(now_ms=0)
    host.packages({"intel-rapl:0": 1_000_000})

    share = attributed_mj(began, host.counters.read(now_ms=10), cpu_ms=7)

    assert share == 1_000  # the tick of the machine's own count is still to come


@pytest.mark.parametrize("content", ["", "many\n"])
def test_a_counter_that_says_nothing_sensible_is_unknown_and_not_zero(
    host: FakePowercap, content: str
) -> None:
    (host.zone("intel-rapl:0", "package-0", 0) / "energy_uj").write_text(content)

    with pytest.raises(EnergyUnknownError, match="cannot be read"):
        host.counters.read(now_ms=0)


def test_a_counter_that_may_not_be_read_is_unknown(host: FakePowercap) -> None:
    counter = host.zone("intel-rapl:0", "package-0", 0) / "energy_uj"
    counter.unlink()
    counter.mkdir()  # unreadable for root as well

    with pytest.raises(EnergyUnknownError, match="cannot be read"):
        host.counters.read(now_ms=0)


def test_a_host_without_counters_says_so(tmp_path: Path) -> None:
    counters = EnergyCounters(ticks_per_second=100, powercap=tmp_path / "none")

    with pytest.raises(EnergyUnknownError, match="no energy counters"):
        counters.read(now_ms=0)

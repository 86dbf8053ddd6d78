"""A command's energy: its share of what was counted, else what is configured, else unknown."""

from pathlib import Path

import pytest

from runtime.energy import ATTRIBUTED, ESTIMATED, EnergySource
from tests.ebpf.powercap import FakePowercap


@pytest.fixture
def host(tmp_path: Path) -> FakePowercap:
    found = FakePowercap(tmp_path)
    found.packages({"intel-rapl:0": 0})
    found.busy(user=0)
    return found


def source(host: FakePowercap | None, milliwatts_per_core: int | None = None) -> EnergySource:
    return EnergySource(
        elapsed_ms=lambda: 0,
        counters=None if host is None else host.counters,
        milliwatts_per_core=milliwatts_per_core,
    )


@pytest.mark.requirement("energy.attributed-where-counted")
def test_energy_is_the_calls_share_where_the_processors_count_it(host: FakePowercap) -> None:
    found = source(host, milliwatts_per_core=7_030)
    began = found.begin()
    host.packages({"intel-rapl:0": 3_000_000})
    host.busy(user=8)

    used = found.used(began, cpu_ms=40)

    assert (used.millijoules, used.by) == (1_500, ATTRIBUTED)  # 40 ms of 80 ms
    assert source(host).why_unmeasurable is None


@pytest.mark.requirement("energy.attributed-where-counted")
def test_energy_that_cannot_be_read_any_more_is_estimated_or_else_unmeasured(
    host: FakePowercap,
) -> None:
    found, dark = source(host, milliwatts_per_core=7_030), source(host)
    began, dark_began = found.begin(), dark.begin()
    host.zone("intel-rapl:1", "package-1", 0)

    used, unknown = found.used(began, cpu_ms=40), dark.used(dark_began, cpu_ms=40)

    assert (used.millijoules, used.by) == (282, ESTIMATED)
    assert unknown.millijoules is None
    assert "came or went" in unknown.why


def test_without_counters_and_a_configured_draw_energy_is_unmeasurable_with_the_reason() -> None:
    dark = source(None)

    assert dark.begin() is None
    assert "watts_per_core is not set" in (dark.why_unmeasurable or "")
    assert dark.used(None, cpu_ms=40).amounts == {}


def test_unknown_processor_time_is_no_energy_of_zero() -> None:
    assert source(None, milliwatts_per_core=7_030).used(None, cpu_ms=None).amounts == {}

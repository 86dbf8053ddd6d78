"""What calls, sessions and tenants may take of the machine, from the file to the kernel's terms."""

import pytest

from ebpf.command import Level
from governor.limits import UNLIMITED, SharedLimits, shared_part
from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.errors import ConfigError
from runtime.machine import shares_of
from tests.runtime.configuration.test_translate import read, rule_for

MIB = 1024 * 1024


def refusal_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="flyball.toml")
    return str(caught.value)


def test_sessions_and_tenants_share_no_limit_until_the_file_has_one() -> None:
    assert shares_of(Config().local) == {Level.SESSION: UNLIMITED, Level.TENANT: UNLIMITED}


@pytest.mark.requirement("domain.shared-limits")
def test_what_sessions_and_tenants_share_is_as_the_file_has_it() -> None:
    config = read(
        "[local.session]\nmemory_mib = 512\nmemory_high_mib = 384\nswap_mib = 0\npids = 64\n"
        "cpus = 1.5\nmemory_low_mib = 32\nmemory_min_mib = 16\n"
        "[local.tenant]\ncpu_weight = 300\nio_read_bps = 1000000\nio_write_bps = 2000000\n"
    )

    assert shares_of(config.local) == {
        Level.SESSION: SharedLimits(
            memory_bytes=512 * MIB,
            memory_high_bytes=384 * MIB,
            memory_low_bytes=32 * MIB,
            memory_min_bytes=16 * MIB,
            swap_bytes=0,
            pids=64,
            cpu_millis=1500,
        ),
        Level.TENANT: SharedLimits(cpu_weight=300, io_read_bps=1_000_000, io_write_bps=2_000_000),
    }


def test_a_rules_limits_reach_the_group_of_its_calls() -> None:
    config = read(
        '[[rule]]\nname = "shell"\ntool = "shell_run"\n'
        "limits = { memory_mib = 64, memory_high_mib = 48, swap_mib = 8, cpu_weight = 10, "
        "io_write_bps = 4096 }\n"
    )

    limits = rule_for(config, "shell_run").limits

    assert shared_part(limits) == SharedLimits(
        memory_bytes=64 * MIB,
        memory_high_bytes=48 * MIB,
        swap_bytes=8 * MIB,
        pids=128,
        cpu_millis=1000,
        cpu_weight=10,
        io_write_bps=4096,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("session = { memory_mib = 0 }", "local.session.memory_mib"),
        ("session = { cpu_weight = 10001 }", "local.session.cpu_weight"),
        ("tenant = { memory_mb = 5 }", "memory_mib"),
        ("session = { memory_mib = 5, memory_high_mib = 6 }", "6 is above memory_mib (5)"),
        ("session = { swap_mib = 6 }", "goes with memory_mib"),
        (
            "session = { memory_mib = 6 }\ntenant = { memory_mib = 5 }",
            "6 is above tenant.memory_mib (5)",
        ),
        ("session = { pids = 6 }\ntenant = { pids = 5 }", "6 is above tenant.pids (5)"),
    ],
)
def test_a_share_that_cannot_hold_is_refused_and_named(text: str, words: str) -> None:
    assert words in refusal_of(f"[local]\n{text}\n")

"""The programs as they are committed: what they are compiled from, and what each run costs."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebpf.capability import CapabilityState, Host
from ebpf.domains.hierarchies import UNIFIED
from ebpf.errors import ProbeError
from ebpf.probe.layout import (
    CONFIG_BYTES,
    DOMAIN_BYTES,
    ONLY,
    RECORD_BYTES,
    Counted,
    Over,
    config_bytes,
    counted_of,
    found_level,
    id_bytes,
    new_domain_bytes,
    question_bytes,
)
from ebpf.probe.objects import Object
from tests.kernel.elf import sections_of
from tests.kernel.other_user import NOBODY, interpreter_for, run_as

PROGRAMS = Path(__file__).resolve().parents[2] / "ebpf" / "programs"
NAMES = sorted(path.name for path in PROGRAMS.glob("*.bpf.c"))
CLANG_MAJOR = "14"

# Ethernet, IPv4 from 127.0.0.1 to 127.0.0.2, UDP to port 53, ten bytes: 38 from IP on.
PACKET = bytes.fromhex(
    "ffffffffffff 000000000000 0800"
    "45000026 00000000 40110000 7f000001 7f000002"
    "12340035 00120000 00000000000000000000"
)
PACKET_BYTES = 38


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clang = shutil.which(f"clang-{CLANG_MAJOR}") or shutil.which("clang")
    if clang is None or not Path("/usr/include/bpf/bpf_helpers.h").exists():
        pytest.skip("needs clang 14, llvm and libbpf-dev to compile the programs")
    found = subprocess.run([clang, "-dumpversion"], capture_output=True, text=True, check=True)
    if found.stdout.split(".")[0] != CLANG_MAJOR:
        pytest.skip(f"needs clang 14, for which the objects are pinned: {found.stdout.strip()}")
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run([PROGRAMS / "build.sh", folder], check=True)
    return folder


@pytest.fixture
def network(host: Host) -> Iterator[Object]:
    if host.capability("egress_bytes").state is not CapabilityState.ENFORCED:
        pytest.skip(f"needs programs in the kernel: {host.capability('egress_bytes').why}")
    loaded = Object(PROGRAMS / "metering.bpf.o")
    yield loaded
    loaded.close()


@pytest.mark.requirement("programs.are-as-compiled")
@pytest.mark.parametrize("name", NAMES)
def test_a_committed_object_is_what_its_source_compiles_to(compiled: Path, name: str) -> None:
    object_name = name.replace(".c", ".o")

    ours = sections_of((PROGRAMS / object_name).read_bytes())
    again = sections_of((compiled / object_name).read_bytes())

    assert ".maps" in ours
    assert ours == again


@pytest.mark.kernel
def test_the_layouts_here_are_those_of_the_programs(network: Object) -> None:
    assert network.map("config").value_bytes == CONFIG_BYTES
    assert network.map("domains").value_bytes == DOMAIN_BYTES
    assert RECORD_BYTES % 8 == 0


@pytest.mark.kernel
def test_a_packet_is_let_out_up_to_the_limit_and_not_beyond(host: Host, network: Object) -> None:
    count = _watch_own_group(host, network, egress_bytes_max=3 * PACKET_BYTES)

    answers = [network.test_run("count_egress", PACKET).answer for _ in range(5)]

    counted = count()
    assert answers == [1, 1, 1, 0, 0]
    assert counted.egress_bytes == 3 * PACKET_BYTES
    assert counted.egress_packets == 3
    assert counted.refused_packets == 2
    assert counted.refused_bytes == 2 * PACKET_BYTES
    assert counted.over is Over.OWN
    assert str(counted.refused) == "127.0.0.2:53"


@pytest.mark.kernel
def test_after_the_first_refused_packet_a_smaller_one_is_refused_too(
    host: Host, network: Object
) -> None:
    _watch_own_group(host, network, egress_bytes_max=PACKET_BYTES - 1)

    network.test_run("count_egress", PACKET)
    answer = network.test_run("count_egress", PACKET[:-5]).answer

    assert answer == 0


@pytest.mark.kernel
def test_what_goes_to_the_loopback_device_is_free_only_where_it_is_said_so(
    host: Host, network: Object
) -> None:
    count = _watch_own_group(host, network, egress_bytes_max=0, has_free_loopback=True)

    answer = network.test_run("count_egress", PACKET).answer

    # A made-up packet is the loopback device's own.
    assert answer == 1
    assert count().egress_bytes == 0
    assert count().loopback_bytes == PACKET_BYTES


@pytest.mark.kernel
def test_what_comes_in_is_counted_and_never_held(host: Host, network: Object) -> None:
    count = _watch_own_group(host, network, egress_bytes_max=0)

    answer = network.test_run("count_ingress", PACKET).answer

    assert answer == 1
    assert (count().ingress_bytes, count().ingress_packets) == (PACKET_BYTES, 1)


@pytest.mark.kernel
def test_who_is_in_no_domain_is_left_alone(host: Host, network: Object) -> None:
    count = _watch_own_group(host, network, egress_bytes_max=0, is_other=True)

    answer = network.test_run("count_egress", PACKET).answer

    assert answer == 1
    assert count().refused_packets == 0


@pytest.mark.kernel
def test_a_program_that_does_not_exist_is_an_error_that_names_it(network: Object) -> None:
    with pytest.raises(ProbeError, match=r"metering.bpf.o has no count_nothing"):
        network.attach("count_nothing")


@pytest.mark.kernel
@pytest.mark.usefixtures("network")
def test_the_log_of_the_library_is_in_the_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.bpf.o"
    broken.write_bytes(b"\x7fELF" + bytes(200))

    with pytest.raises(ProbeError, match=r"cannot open broken.bpf.o: .*libbpf"):
        Object(broken)


def _watch_own_group(
    host: Host,
    network: Object,
    *,
    egress_bytes_max: int,
    has_free_loopback: bool = False,
    is_other: bool = False,
) -> Callable[[], Counted]:
    """Make a domain of the group that the test itself is in; return what is counted of it."""
    group = host.hierarchies[UNIFIED].own.stat().st_ino
    config, domains = network.map("config"), network.map("domains")
    question = network.map("question")
    question.put(ONLY, question_bytes(group))
    network.test_run("find_level", PACKET)
    level = found_level(question.get(ONLY) or b"")
    assert level is not None
    config.put(ONLY, config_bytes(first_level=level, has_free_loopback=has_free_loopback))
    key = id_bytes(group + 1_000_000 if is_other else group)
    domains.put(key, new_domain_bytes(egress_bytes_max=egress_bytes_max, records_max=0))
    return lambda: counted_of(domains.get(key) or b"")


@pytest.mark.kernel
def test_nothing_leaves_a_domain_that_is_shut_and_its_figures_stay(
    host: Host, network: Object
) -> None:
    count = _watch_own_group(host, network, egress_bytes_max=10 * PACKET_BYTES)
    network.test_run("count_egress", PACKET)

    network.test_run("shut_domain", PACKET)
    answer = network.test_run("count_egress", PACKET).answer

    assert answer == 0
    assert count().egress_bytes == PACKET_BYTES
    assert count().over is Over.NONE


# Run by a user without rights, who reads why nothing is metered for it.
UNPRIVILEGED = """
from pathlib import Path
from ebpf.domains.hierarchies import UNIFIED, Hierarchy
from ebpf.metering_parts import found_parts
place = Hierarchy(mount=Path("/sys/fs/cgroup"), own=Path("/sys/fs/cgroup"))
found = {part.name: part for part in found_parts({UNIFIED: place})}
assert found["egress_bytes"].why_not.startswith("it takes root, or CAP_BPF"), found
assert "Operation not permitted" in found["egress_bytes"].why_not, found
"""


@pytest.mark.kernel
@pytest.mark.usefixtures("network")
@pytest.mark.requirement("metering.says-what-is-missing")
def test_a_user_who_may_not_load_programs_is_told_what_it_takes() -> None:
    python = interpreter_for(NOBODY)
    if python is None:
        pytest.skip("no Python 3.11 that another user can run")

    assert run_as(NOBODY, [python, "-c", UNPRIVILEGED]) == 0

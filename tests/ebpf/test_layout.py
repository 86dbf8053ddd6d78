"""What stands in the memory that programs in the kernel share with the sidecar."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebpf.probe.layout import (
    DOMAIN_BYTES,
    RECORD_BYTES,
    Kind,
    Over,
    Peer,
    counted_of,
    new_domain_bytes,
    record_of,
)
from ebpf.probe.watched import Watched

INET, INET6 = 2, 10
EXECS, OPENS = 9, 12


def domain(figures: list[int], peer: bytes = bytes(20), over: int = 0) -> bytes:
    return struct.pack("=18Q", *figures) + peer + struct.pack("=HH", over, 0)


def record(kind: Kind, *, peer: bytes = bytes(20), comm: bytes = b"sh", text: bytes = b"") -> bytes:
    return (
        struct.pack("=QIII", 7, kind, 40, 30) + peer + comm.ljust(16, b"\0") + text.ljust(96, b"\0")
    )


def peer(family: int, address: bytes, port: int) -> bytes:
    return address.ljust(16, b"\0") + struct.pack("=HBB", port, family, 6)


def test_the_figures_of_a_domain_stand_where_the_programs_put_them() -> None:
    found = counted_of(domain(list(range(100, 118)), peer(INET, b"\x0a\0\0\x09", 443), over=2))

    assert found.egress_bytes == 101
    assert (found.egress_packets, found.ingress_bytes, found.ingress_packets) == (102, 103, 104)
    assert (found.loopback_bytes, found.refused_bytes, found.refused_packets) == (105, 106, 107)
    assert (found.connections, found.executions, found.forks, found.exits) == (108, 109, 110, 111)
    assert (found.opens, found.victims, found.untold, found.lost) == (112, 113, 116, 117)
    assert found.over is Over.ABOVE
    assert found.refused == Peer("10.0.0.9", 443)


def test_a_new_domain_has_counted_nothing_and_holds_its_limit() -> None:
    value = new_domain_bytes(egress_bytes_max=0, records_max=5)

    assert len(value) == DOMAIN_BYTES
    assert struct.unpack_from("=Q", value)[0] == 0
    assert counted_of(value).egress_bytes == 0
    assert counted_of(value).refused is None
    assert struct.unpack_from("=Q", new_domain_bytes(egress_bytes_max=None, records_max=0))[0] == (
        2**64 - 1
    )


def test_an_address_is_written_as_in_a_url() -> None:
    six = record_of(record(Kind.CONNECT, peer=peer(INET6, bytes(15) + b"\x01", 80))).peer

    assert str(six) == "[::1]:80"
    assert str(Peer("10.0.0.9", 0)) == "10.0.0.9"


def test_a_name_that_a_command_chose_cannot_break_out_of_its_line() -> None:
    found = record_of(record(Kind.EXEC, comm=b"a\nb\x1b[2J", text=b"/bin/\xff\r\n"))

    assert found.command.isprintable()
    assert found.text.isprintable()
    assert found.command.startswith("a")


@given(st.binary(min_size=RECORD_BYTES, max_size=RECORD_BYTES))
def test_whatever_bytes_a_record_has_only_its_kind_can_be_unknown(value: bytes) -> None:
    known = value[:8] + struct.pack("=I", Kind.OPEN) + value[12:]

    found = record_of(known)

    assert found.kind is Kind.OPEN
    assert found.text.isprintable()


def test_what_is_kept_of_a_domain_is_bounded_and_the_rest_is_counted() -> None:
    watched = Watched()
    for port in range(1, 1_001):
        watched.hear(record_of(record(Kind.CONNECT, peer=peer(INET, b"\x7f\0\0\x01", port))))
    counted = counted_of(domain([0] * 8 + [1_000] + [0] * 9))

    (note,) = watched.notes(counted)

    assert len(watched.peers) == 64
    assert note.startswith("connected to 127.0.0.1:1 (sh), 127.0.0.1:2 (sh), ")
    assert note.endswith(", 992 more")


def test_what_was_lost_and_what_was_refused_is_told() -> None:
    figures = [0] * 18
    figures[7], figures[13], figures[16], figures[17] = 2, 1, 4, 3
    watched = Watched()
    watched.hear(record_of(record(Kind.VICTIM, comm=b"hog")))

    notes = watched.notes(counted_of(domain(figures, peer(INET, b"\x0a\0\0\x09", 53), over=1)))

    assert notes == (
        "refused 2 packets, the first to 10.0.0.9:53",
        "the kernel killed hog (40) for want of memory",
        "3 events were lost: the ring was full",
        "4 events more than are told of one call",
    )


@pytest.mark.parametrize(
    ("programs", "files", "said"),
    [
        (1, 0, ("ran 1 program",)),
        (2, 1, ("ran 2 programs, opened 1 file for writing",)),
        (0, 2, ("opened 2 files for writing",)),
    ],
)
def test_programs_and_files_are_told_where_there_were_any(
    programs: int, files: int, said: tuple[str, ...]
) -> None:
    figures = [0] * 18
    figures[EXECS], figures[OPENS] = programs, files

    assert Watched().notes(counted_of(domain(figures))) == said


def test_a_tree_of_processes_knows_who_started_whom() -> None:
    watched = Watched()
    watched.hear(record_of(record(Kind.EXEC)))
    forked = struct.pack("=QIII", 7, Kind.FORK, 40, 41) + bytes(132)
    watched.hear(record_of(forked))

    assert watched.processes == {40: None, 41: 40}

"""Where operators' probes are kept, and what is said where they cannot be compiled."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ebpf.custom.running import start_probe
from ebpf.custom.shelf import PROBES_MAX, SOURCE_BYTES_MAX, Probe, Shelf
from ebpf.errors import ProbeError
from governor.amounts import Unit
from runtime.cli.command_line import run as run_command


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "probes")


def test_what_was_added_is_there_until_it_is_removed(shelf: Shelf) -> None:
    first = Probe(name="opens", source="a")
    second = Probe(name="sent", source="b", session="ses_1", headers="/usr/src")
    shelf.add(second)
    shelf.add(first)

    assert shelf.probes() == (first, second)
    assert shelf.remove("opens")
    assert not shelf.remove("opens")
    assert shelf.probes() == (second,)


def test_a_probe_takes_the_place_of_the_one_of_its_name(shelf: Shelf) -> None:
    for number in range(PROBES_MAX):
        shelf.add(Probe(name=f"count_{number}", source="a"))
    shelf.add(Probe(name="count_0", source="b"))

    assert shelf.probes()[0].source == "b"
    with pytest.raises(ProbeError, match="remove one first"):
        shelf.add(Probe(name="one_more", source="a"))


@pytest.mark.requirement("probes.are-units")
def test_a_unit_stays_with_the_probe_that_has_it_until_that_is_removed(shelf: Shelf) -> None:
    opens = Probe(name="opens", source="a", unit=Unit.PROBE_1)
    shelf.add(opens)
    shelf.add(Probe(name="sent", source="b", unit=Unit.PROBE_2))

    with pytest.raises(ProbeError, match="probe_1 is counted by opens"):
        shelf.add(Probe(name="reads", source="c", unit=Unit.PROBE_1))
    shelf.add(replace(opens, source="again"))

    assert [(probe.name, probe.unit) for probe in shelf.probes()] == [
        ("opens", Unit.PROBE_1),
        ("sent", Unit.PROBE_2),
    ]
    shelf.remove("opens")
    shelf.add(Probe(name="reads", source="c", unit=Unit.PROBE_1))


def test_two_probes_that_came_to_have_one_unit_are_not_followed(
    shelf: Shelf, tmp_path: Path
) -> None:
    shelf.add(Probe(name="opens", source="a", unit=Unit.PROBE_1))
    text = (tmp_path / "probes" / "opens.json").read_text()
    (tmp_path / "probes" / "reads.json").write_text(text.replace("opens", "reads"))

    with pytest.raises(ProbeError, match=r"probe_1 is counted by opens and cannot be by reads"):
        shelf.probes()
    assert shelf.remove("reads")
    assert len(shelf.probes()) == 1


@pytest.mark.parametrize(
    ("probe", "told"),
    [
        (Probe(name="probe_1", source="a"), "is the name of a unit"),
        (Probe(name="opens", source="a", unit=Unit.CPU_MS), "is no unit of probes"),
        (Probe(name="opens", source="a", unit=Unit.PROBE_1, session="ses_1"), "ses_1 alone"),
    ],
)
def test_what_would_count_for_no_budget_or_for_the_wrong_one_is_refused(
    shelf: Shelf, probe: Probe, told: str
) -> None:
    with pytest.raises(ProbeError, match=told):
        shelf.add(probe)


def test_only_the_owner_reads_what_is_kept(shelf: Shelf, tmp_path: Path) -> None:
    shelf.add(Probe(name="opens", source="a"))

    assert (tmp_path / "probes").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "probes" / "opens.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["", "Opens", "../opens", "a/b", "a" * 33, "1st"])
def test_a_name_that_is_no_files_is_refused(shelf: Shelf, name: str) -> None:
    with pytest.raises(ProbeError, match="cannot name a probe"):
        shelf.add(Probe(name=name, source="a"))
    assert not shelf.remove(name)


def test_a_source_without_a_bound_is_refused(shelf: Shelf) -> None:
    with pytest.raises(ProbeError, match="longer than"):
        shelf.add(Probe(name="long", source="x" * (SOURCE_BYTES_MAX + 1)))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"name": "x", "source": "", "unit": "volts"}',
        '{"name": "../x", "source": ""}',
    ],
)
def test_a_file_that_is_no_probe_is_named(shelf: Shelf, tmp_path: Path, content: str) -> None:
    shelf.add(Probe(name="opens", source="a"))
    (tmp_path / "probes" / "opens.json").write_text(content)

    with pytest.raises(ProbeError, match=r"cannot name a probe|remove the file"):
        shelf.probes()


# A stand-in for the interpreter that ends, or says something else, or sees another bcc.
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 1", "ended without an answer"),
        ("echo nonsense", "ended without an answer"),
        ('echo "{\\"error\\": \\"no bcc\\"}"; echo deeper >&2', "no bcc\ndeeper"),
    ],
)
async def test_a_compiler_that_fails_is_told_with_what_it_said(
    tmp_path: Path, script: str, told: str
) -> None:
    interpreter = tmp_path / "python3"
    interpreter.write_text(f"#!/bin/sh\nread request\n{script}\n")
    interpreter.chmod(0o755)

    with pytest.raises(ProbeError, match=told):
        await start_probe(Probe(name="opens", source="a"), interpreter=interpreter)


@pytest.mark.anyio
@pytest.mark.requirement("probes.say-how-to-get-bcc")
async def test_without_an_interpreter_it_is_said_how_to_get_bcc(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="apt install python3-bpfcc"):
        await start_probe(Probe(name="opens", source="a"), interpreter=tmp_path / "none")


@pytest.mark.anyio
@pytest.mark.requirement("probes.say-how-to-get-bcc")
@pytest.mark.parametrize(
    ("package", "told"),
    [
        (None, "apt install python3-bpfcc"),
        ("class Lattice: pass\n", "is another package of that name"),
    ],
)
async def test_a_package_that_is_not_the_compiler_is_told_from_it(
    tmp_path: Path, package: str | None, told: str
) -> None:
    if package is not None:
        (tmp_path / "bcc.py").write_text(package)
    # This suite's own interpreter has no bcc; isolated, it sees nothing but what is put there.
    interpreter = tmp_path / "python3"
    boot = (
        "import runpy, sys; sys.path.insert(0, sys.argv[1]); "
        "runpy.run_path(sys.argv[2], run_name='__main__')"
    )
    interpreter.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -I -S -c "{boot}" "{tmp_path}" "$2"\n'
    )
    interpreter.chmod(0o755)

    with pytest.raises(ProbeError, match=told):
        await start_probe(Probe(name="opens", source="a"), interpreter=interpreter)


def test_a_program_that_counts_nothing_is_not_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "idle.c").write_text("int x;\n")

    status = run_command(["probe", "--state", str(tmp_path), "add", str(tmp_path / "idle.c")])

    assert status == 2
    assert "counts nothing: call flyball_count(AMOUNT)" in capsys.readouterr().err

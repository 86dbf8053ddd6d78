from pathlib import Path

import pytest

from ebpf.pressure import PressureReader, read_pressure
from governor.fairness.shedding import Pressure

FULL = "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def write(folder: Path, resource: str, avg10: str) -> None:
    text = f"some avg10={avg10} avg60=0.15 avg300=0.11 total=8797801\n{FULL}"
    (folder / resource).write_text(text, encoding="ascii")


def test_each_resource_is_read_in_hundredths_of_a_percent(tmp_path: Path) -> None:
    write(tmp_path, "cpu", "12.34")
    write(tmp_path, "memory", "0.05")
    write(tmp_path, "io", "100.00")

    assert read_pressure(tmp_path) == Pressure(cpu=1_234, memory=5, io=10_000)


def test_a_kernel_without_the_figures_gives_none(tmp_path: Path) -> None:
    assert read_pressure(tmp_path / "absent") is None


@pytest.mark.parametrize("text", ["", "some", "full avg10=1.00", "some avg10=x", "some avg60=1"])
def test_a_file_that_is_not_as_expected_is_unknown_and_the_others_count(
    tmp_path: Path, text: str
) -> None:
    write(tmp_path, "memory", "3.00")
    (tmp_path / "cpu").write_text(text, encoding="ascii")

    assert read_pressure(tmp_path) == Pressure(memory=300)


def test_the_kernel_is_asked_once_a_second(tmp_path: Path) -> None:
    now = [5_000]
    reader = PressureReader(elapsed_ms=lambda: now[0], folder=tmp_path)
    write(tmp_path, "cpu", "1.00")
    first = reader()
    write(tmp_path, "cpu", "2.00")
    now[0] += 999
    cached = reader()
    now[0] += 1

    assert (first, cached, reader()) == (
        Pressure(cpu=100),
        Pressure(cpu=100),
        Pressure(cpu=200),
    )

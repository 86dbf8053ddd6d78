"""What comes back from a guest, and what is said when nothing does."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil
import pytest

from tests.kernel.lab.__main__ import report_skipped
from tests.kernel.lab.guest import Errand, finished
from tests.kernel.lab.packages import LabError


@dataclass(frozen=True)
class MadeUp:
    """A guest that is a shell script beside its shared folder."""

    busybox: Path
    script: str
    name: str = "made-up"

    def command(self, folder: Path) -> Sequence[str]:
        return ("/bin/sh", "-c", f"cd {folder}/shared; {self.script}")


def errand(seconds_max: int = 60) -> Errand:
    return Errand(argv=("true",), cwd=Path("/"), seconds_max=seconds_max)


@pytest.fixture
def busybox(tmp_path: Path) -> Path:
    path = tmp_path / "busybox"
    path.touch()
    return path


def test_the_end_of_a_command_and_what_it_wrote_come_back(busybox: Path) -> None:
    guest = MadeUp(busybox, "echo said > output; echo 7 > exit-code; echo x > junit.xml")

    with finished(guest, errand()) as end:
        assert (end.exit_code, end.output) == (7, "said\n")
        assert (end.folder / "junit.xml").exists()


def test_a_guest_that_ends_without_a_word_is_no_success(busybox: Path) -> None:
    guest = MadeUp(busybox, "echo half of it > output; echo the kernel is lost")

    told = r"half of it\n(.|\n)*the kernel is lost"
    with pytest.raises(LabError, match=told), finished(guest, errand()):
        pass


def test_a_guest_that_never_ends_is_ended_with_all_that_it_started(
    busybox: Path, tmp_path: Path
) -> None:
    begun = tmp_path / "pid"
    guest = MadeUp(busybox, f"sleep 1000 & echo $! > {begun}; wait")

    # On a busy machine a shell may need longer to begin.
    for seconds_max in (1, 10, 60):
        with (
            pytest.raises(LabError, match="no end after its time"),
            finished(guest, errand(seconds_max)),
        ):
            pass
        if begun.exists() and begun.read_text():
            break

    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(begun.read_text())).wait(60)


def test_a_machine_without_guests_has_one_skipped_test_with_the_reason(tmp_path: Path) -> None:
    report_skipped("qemu", "no archive", tmp_path / "report.xml")

    (skipped,) = ET.parse(tmp_path / "report.xml").iter("skipped")
    assert skipped.get("message") == "no qemu guest: no archive"

"""Run tests in a guest: `python -m tests.kernel.lab uml [--report FILE] [pytest's arguments]`.

The exit code is pytest's. Where no guest can be started it is 0: what was asked for is then one
skipped test in the report, with the reason, so that nothing is left out in silence.
"""

import argparse
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.kernel.lab.guest import SHARED, Errand, Guest, finished
from tests.kernel.lab.packages import LabError, default_cache
from tests.kernel.lab.qemu import find_qemu
from tests.kernel.lab.uml import find_uml

ROOT = Path(__file__).resolve().parents[3]
GUESTS: Mapping[str, Callable[[Path], Guest]] = {"uml": find_uml, "qemu": find_qemu}
REPORT = "junit.xml"


def main() -> int:
    """Run what was asked for; return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernel.lab", description=__doc__)
    parser.add_argument("guest", choices=sorted(GUESTS))
    parser.add_argument("--report", type=Path, help="where the JUnit XML goes")
    parser.add_argument("--seconds", type=int, default=300, help="the guest is ended after this")
    arguments, selection = parser.parse_known_args()
    try:
        guest = found(arguments.guest)
    except LabError as reason:
        say(f"skipped: {reason}")
        if arguments.report is not None:
            report_skipped(arguments.guest, str(reason), arguments.report)
        return 0
    return run(guest, selection, seconds_max=arguments.seconds, report=arguments.report)


def found(name: str) -> Guest:
    """Return the guest of this name, ready to start.

    Raises:
        LabError: it cannot be had on this machine.
    """
    cache = default_cache()
    cache.mkdir(parents=True, exist_ok=True)
    return GUESTS[name](cache)


def run(guest: Guest, selection: list[str], *, seconds_max: int, report: Path | None) -> int:
    """Run pytest in the guest, show what it wrote, keep its report; return its exit code."""
    pytest = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q")
    reporting = (f"--junitxml={SHARED / REPORT}", "-o", f"junit_suite_name={guest.name}")
    errand = Errand(argv=(*pytest, *reporting, *selection), cwd=ROOT, seconds_max=seconds_max)
    try:
        with finished(guest, errand) as end:
            say(end.output)
            if report is not None and (end.folder / REPORT).exists():
                shutil.copyfile(end.folder / REPORT, report)
            return end.exit_code
    except LabError as error:
        say(str(error))
        return 125


def report_skipped(guest: str, reason: str, report: Path) -> None:
    """Write a report of one skipped test: all that was to run in this guest."""
    suite = ET.Element("testsuite", name=guest)
    case = ET.SubElement(suite, "testcase", classname="tests.kernel.lab", name=guest)
    ET.SubElement(case, "skipped", message=f"no {guest} guest: {reason}")
    ET.ElementTree(suite).write(report)


def say(text: str) -> None:
    """Print at once: others write to the same terminal."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

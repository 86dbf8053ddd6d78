"""Run the five checks of the house in order and say what ran, what failed, what was left out.

`make test` runs everything that this machine can; `make check` (`--fast`) runs the pure part.
A failed step does not stop the next one, so that all faults are seen at once.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

CHECK_SECONDS_MAX = 600
PYTEST_SECONDS_MAX = 1800
INSTALL_SECONDS_MAX = 600

FAST_MARKS = "not slow and not kernel"
# Suites that need no database, server, kernel or process of their own.
FAST_SUITES = (
    "tests/governor",
    "tests/tool_gateway",
    "tests/memory_store",
    "tests/test_tidy.py",
    "tests/test_requirements.py",
)

# Suites that take longest and keep one core busy: they run beside all others.
BESIDE_SUITES = ("tests/proof", "tests/contracts")


@dataclass(frozen=True, kw_only=True)
class SystemPart:
    """A program that tests need and that the lock files cannot bring: its Debian package."""

    program: str
    package: str
    needed_by: str


SYSTEM_PARTS = (
    SystemPart(
        program="git",
        package="git",
        needed_by="tests that run the git MCP server; test_tidy (lists what is tracked)",
    ),
    SystemPart(
        program="mkfs.ext4",
        package="e2fsprogs",
        needed_by="tests on a disk that hangs or refuses to be written",
    ),
)

# The beginnings of the skip reasons that CI accepts, each with why no CI machine can run the
# test (another platform, a user other than root). Any other skip in CI is a failure.
EXPECTED_SKIPS: tuple[str, ...] = (
    # As root these prove nothing; tests/kernel runs the same suite once more as another user.
    "runs where the sidecar is not root",
    # A checkout or an interpreter below a private folder is out of another user's reach.
    "no Python 3.11 that another user can run",
    # A container is often given no loop device; a driver that behaves so is tested everywhere.
    "no disk can be mounted from a file here",
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command and how long it may take."""

    name: str
    argv: tuple[str, ...]
    seconds_max: int
    is_beside: bool = False  # runs beside those that follow, and is shown at the end


@dataclass
class Suite:
    """How the tests of one folder, or of one file directly under tests/, ended."""

    counts: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps; return 0 when all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="lint, types, imports, pure tests")
    fast = parser.parse_args(argv).fast
    in_ci = os.environ.get("CI") == "true"
    # Ended from outside, it unwinds, so that no step is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    faults = list(provide_system_parts(may_install=in_ci or os.environ.get("SYSTEM") == "1"))
    with tempfile.TemporaryDirectory(prefix="flyball-tests-") as folder:
        faults += run_all(steps(Path(folder), fast=fast), Path(folder))
        suites = read_reports(Path(folder))
    faults += judge(suites, in_ci=in_ci)
    summarise(suites, faults)
    return 1 if faults else 0


def steps(folder: Path, *, fast: bool) -> tuple[Step, ...]:
    """Return the five checks; pytest leaves its JUnit XML in `folder`."""
    checks = (
        _check("ruff check", "ruff", "check", "."),
        _check("ruff format", "ruff", "format", "--check", "."),
        _check("mypy", "mypy"),
        _check("lint-imports", "lint-imports"),
    )
    if fast:
        return (*checks, _pytest("pytest", folder, "-m", FAST_MARKS, *existing(FAST_SUITES)))
    ignored = [f"--ignore={suite}" for suite in BESIDE_SUITES]
    return (
        *checks,
        _pytest("pytest, the long suites", folder, *existing(BESIDE_SUITES), is_beside=True),
        _pytest("pytest", folder, *ignored),
    )


def _pytest(name: str, folder: Path, *selection: str, is_beside: bool = False) -> Step:
    report = folder / f"junit-{len(selection)}-{is_beside}.xml"
    # Two at once must not write to one cache.
    cache = ("-o", f"cache_dir={folder / 'cache'}") if is_beside else ()
    return Step(
        name=name,
        argv=(
            *(str(BIN / "pytest"), "-q", f"--junitxml={report}", "-o", "junit_family=xunit2"),
            *cache,
            *selection,
        ),
        seconds_max=PYTEST_SECONDS_MAX,
        is_beside=is_beside,
    )


def existing(paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of `paths` that exist and hold a test: pytest refuses the others."""
    return tuple(
        path for path in paths if (ROOT / path).is_file() or any((ROOT / path).rglob("test_*.py"))
    )


def _check(name: str, program: str, *arguments: str) -> Step:
    return Step(name=name, argv=(str(BIN / program), *arguments), seconds_max=CHECK_SECONDS_MAX)


def run_all(steps: Sequence[Step], folder: Path) -> list[str]:
    """Run the steps in order, some of them beside the others; return what went wrong."""
    faults: list[str] = []
    with ExitStack() as stack:
        beside: list[Callable[[], str | None]] = []
        for step in steps:
            if step.is_beside:
                beside.append(stack.enter_context(_beside(step, folder / f"{len(beside)}.log")))
            elif (fault := run(step)) is not None:
                faults.append(fault)
        faults += [fault for finish in beside if (fault := finish()) is not None]
    return faults


def run(step: Step) -> str | None:
    """Run one step with its output shown as it comes; return what went wrong, or None."""
    say(f"== {step.name}")
    with _started(step, None) as finish:
        return finish()


@contextmanager
def _beside(step: Step, log: Path) -> Iterator[Callable[[], str | None]]:
    """Start `step` and yield what waits for its end and shows what it wrote until then."""
    say(f"== {step.name}: begun, shown at the end\n")
    with log.open("w") as output, _started(step, output) as finish:

        def shown() -> str | None:
            fault = finish()
            say(log.read_text())
            return fault

        yield shown


@contextmanager
def _started(step: Step, output: TextIO | None) -> Iterator[Callable[[], str | None]]:
    """Start `step` and yield what waits for its end; nothing of it runs on afterwards."""
    began = time.monotonic()
    # A group of its own, so that a step that is given up leaves nothing running.
    process = subprocess.Popen(
        step.argv, cwd=ROOT, process_group=0, stdout=output, stderr=output and subprocess.STDOUT
    )

    def finish() -> str | None:
        left = step.seconds_max - (time.monotonic() - began)
        try:
            code = process.wait(timeout=max(0.0, left))
            fault = None if code == 0 else f"{step.name}: exit code {code}"
        except subprocess.TimeoutExpired:
            fault = f"{step.name}: no end after {step.seconds_max} s"
        verdict = "failed" if fault else "passed"
        say(f"== {step.name}: {verdict} in {time.monotonic() - began:.1f} s\n")
        return fault

    try:
        yield finish
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def provide_system_parts(*, may_install: bool) -> Iterator[str]:
    """Install the missing system parts, or print how to; yield what went wrong."""
    missing = [part for part in SYSTEM_PARTS if shutil.which(part.program) is None]
    if not missing:
        return
    packages = [part.package for part in missing]
    install = ("apt-get", "install", "--yes", "--no-install-recommends", *packages)
    command = f"apt-get update && {' '.join(install)}"
    for part in missing:
        say(f"missing: {part.program} (Debian package {part.package}), for {part.needed_by}")
    if not may_install or os.geteuid() != 0 or shutil.which("apt-get") is None:
        say(f"as root: {command}\nor: SYSTEM=1 make test, as root\n")
        return
    say(f"== system parts: {command}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for argv in (("apt-get", "update"), install):
        if (fault := _install(argv, quiet)) is not None:
            yield fault
            return


def _install(argv: Sequence[str], environment: Mapping[str, str]) -> str | None:
    try:
        code = subprocess.run(
            argv, env=environment, timeout=INSTALL_SECONDS_MAX, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return f"system parts: {' '.join(argv)}: no end after {INSTALL_SECONDS_MAX} s"
    return None if code == 0 else f"system parts: {' '.join(argv)}: exit code {code}"


def read_reports(folder: Path) -> dict[str, Suite]:
    """Return how each suite ended, from pytest's JUnit XML; nothing where there is none."""
    suites: dict[str, Suite] = {}
    reports = [ET.parse(report).getroot() for report in sorted(folder.glob("junit-*.xml"))]
    for case in (case for report in reports for case in report.iter("testcase")):
        suite = suites.setdefault(suite_of(case.get("classname", "")), Suite())
        if (skipped := case.find("skipped")) is not None:
            suite.counts["skipped"] += 1
            suite.skips[skipped.get("message") or "no reason given"] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            suite.counts["failed"] += 1
        else:
            suite.counts["passed"] += 1
    return suites


def suite_of(classname: str) -> str:
    """Return the folder under tests/ of a JUnit class name, or the file if it is in none."""
    parts = classname.split(".")
    under = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
    return under[0] if under and under[0] else "(unnamed)"


def judge(suites: Mapping[str, Suite], *, in_ci: bool) -> Iterator[str]:
    """Yield what the exit codes of the steps do not tell."""
    if not sum(suite.counts.total() for suite in suites.values()):
        yield "pytest: not one test ran"
    if not in_ci:
        return
    for name, suite in suites.items():
        for reason in suite.skips:
            if not reason.startswith(EXPECTED_SKIPS):
                yield f"{name}: skipped in CI: {reason}"


def summarise(suites: Mapping[str, Suite], faults: Sequence[str]) -> None:
    """Print the suites, the skips with their reasons, the faults, then the one line of totals."""
    totals: Counter[str] = Counter()
    say("== summary")
    for name, suite in sorted(suites.items()):
        totals.update(suite.counts)
        say(f"{name:<28} {_figures(suite.counts)}")
        for reason, times in sorted(suite.skips.items()):
            say(f"    skipped {times}: {reason}")
    for fault in faults:
        say(f"FAULT {fault}")
    say(_figures(totals))


def _figures(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts.get(word, 0)} {word}" for word in ("passed", "failed", "skipped"))


def say(line: str) -> None:
    """Print at once: the steps write to the same terminal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""Run the five checks of the house and say what ran, what failed, what was left out.

`make test` runs everything that this machine can; `make check` (`--fast`) runs the pure part.
Several steps run at once, each shown when it has ended. A failed one stops no other, so that
all faults are seen at once.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
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

# How many steps run at once on a machine of two cores: the suites wait for much of their time,
# for processes that start, clocks that run out and disks that answer.
LANES = 3
LOOK_SECONDS = 0.05

# What one pytest runs, those that take longest first, so that the lanes end together. Whatever
# is in none of these folders is the last share. Each has servers, ports, directories and
# control groups of its own; none looks at processes that are not of its own making.
SHARES: tuple[tuple[str, ...], ...] = (
    ("tests/runtime",),
    ("tests/proof", "tests/contracts"),
    ("tests/scenarios",),
    ("tests/browser", "tests/clients", "tests/docs", "tests/deploy", "tests/upgrade"),
    ("tests/memory_store", "tests/governor"),
    # What would else make the share of the scenarios the longest by far.
    (
        "tests/scenarios/test_workers.py",
        "tests/scenarios/test_router_workers.py",
        "tests/scenarios/test_run_live.py",
        "tests/scenarios/test_ladder_live.py",
        "tests/scenarios/test_many_sessions.py",
        "tests/scenarios/test_memory_live.py",
    ),
    ("tests/tool_gateway",),
    ("tests/kernel", "tests/ebpf"),
)


# What runs in a kernel of its own; each takes the pace of what emulates it.
GUEST_SHARES: dict[str, tuple[str, ...]] = {
    "uml": (
        "tests/kernel/v2",
        "tests/kernel/test_contract.py",
        "tests/kernel/test_bad_neighbours.py",
    ),
    "qemu": ("tests/kernel/vm",),
}
# What of these is nowhere else to be run.
GUEST_SUITES = ("tests/kernel/v2", "tests/kernel/vm")
GUEST_SECONDS_MAX = 600
GUEST_START_SECONDS_MAX = 600  # what is fetched and tried before, with a poor connection


@dataclass(frozen=True, kw_only=True)
class SystemPart:
    """A program or file that tests need and the lock files cannot bring: its Debian package."""

    program: str
    package: str
    needed_by: str

    @property
    def is_there(self) -> bool:
        """Tell whether this machine has it."""
        if self.program.startswith("/"):
            return Path(self.program).exists()
        return shutil.which(self.program) is not None


SYSTEM_PARTS = (
    SystemPart(
        program="git",
        package="git",
        needed_by="tests that run the git MCP server; test_tidy (lists what is tracked)",
    ),
    SystemPart(
        program="mkfs.ext4",
        package="e2fsprogs",
        needed_by="tests on a disk that hangs or refuses to be written; disks of guests",
    ),
    SystemPart(
        program="qemu-system-x86_64",
        package="qemu-system-x86",
        needed_by="tests on a kernel with pressure, BTF and BPF LSM (tests/kernel/vm)",
    ),
    SystemPart(
        program="/usr/include/bpf/bpf_helpers.h",
        package="libbpf-dev",
        needed_by="tests of what programs in the kernel count and refuse (with libbpf.so.1)",
    ),
    SystemPart(
        program="clang",
        package="clang",
        needed_by="the test that the committed programs are what their sources say",
    ),
    SystemPart(
        program="llvm-objcopy",
        package="llvm",
        needed_by="the test that the committed programs are what their sources say",
    ),
    SystemPart(
        program="curl",
        package="curl",
        needed_by="the snippets of the documentation that are executed (tests/docs)",
    ),
    SystemPart(
        program="chromium",
        package="chromium",
        needed_by="tests of the console and of the docs in a real browser",
    ),
    SystemPart(
        program="promtool",
        package="prometheus",
        needed_by="tests of the alert rules",
    ),
    SystemPart(
        program="systemd-analyze",
        package="systemd",
        needed_by="tests of the unit that systemd starts",
    ),
    SystemPart(
        program="/usr/lib/python3/dist-packages/bcc/__init__.py",
        package="python3-bpfcc",
        needed_by="tests of the probes that operators write",
    ),
)

# The beginnings of the skip reasons that CI accepts, each with why no CI machine can run the
# test (another platform, a user other than root). Any other skip in CI is a failure.
EXPECTED_SKIPS: tuple[str, ...] = (
    # As root these prove nothing; tests/kernel runs the same suite once more as another user.
    "runs where the sidecar is not root",
    # A checkout or an interpreter below a private folder is out of another user's reach.
    "no Python 3.11 that another user can run",
    # A container is often given no loop device, or may mount nothing; a driver that behaves as on
    # a disk that fails or is full is tested everywhere.
    "no disk can be mounted",
    # What runs on every kind of domain meets the kinds that its machine lacks in a guest.
    "this machine has no",
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command and how long it may take."""

    name: str
    argv: tuple[str, ...]
    seconds_max: int


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
    # The tests start hundreds of processes, and each would compile a thousand modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # What a set's order decides is decided alike in every run.
    os.environ.setdefault("PYTHONHASHSEED", "0")
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
    """Return the five checks, the longest first; pytest leaves its JUnit XML in `folder`."""
    checks = (
        _check("mypy", "mypy"),
        _check("ruff check", "ruff", "check", "."),
        _check("ruff format", "ruff", "format", "--check", "."),
        _check("lint-imports", "lint-imports"),
    )
    if fast:
        pure = _pytest("pytest", folder, "-m", FAST_MARKS, *existing(FAST_SUITES))
        return (pure, *checks)
    shares = [existing(share) for share in SHARES]
    elsewhere = [f"--ignore={suite}" for suite in GUEST_SUITES]

    def inner(share: Sequence[str]) -> list[str]:
        """Return what leaves out of a share's folders the files that are a share of their own."""
        files = {file for other in shares if other is not share for file in other}
        return [f"--ignore={file}" for file in sorted(files) if str(Path(file).parent) in share]

    ignored = [f"--ignore={suite}" for share in shares for suite in share]
    return (
        *(_in_guest(guest, folder, *share) for guest, share in GUEST_SHARES.items()),
        *(_pytest(_title(share), folder, *elsewhere, *inner(share), *share) for share in shares),
        _pytest("pytest, the others", folder, *ignored),
        *checks,
    )


def _title(share: Sequence[str]) -> str:
    return f"pytest {' '.join(share[:2])}{', …' if len(share) > 2 else ''}"


def _in_guest(guest: str, folder: Path, *share: str) -> Step:
    lab = (sys.executable, "-m", "tests.kernel.lab", guest, "--seconds", str(GUEST_SECONDS_MAX))
    return Step(
        name=f"pytest {' '.join(share)}, in {guest}",
        argv=(*lab, "--report", str(folder / f"{guest}.xml"), *share),
        seconds_max=GUEST_SECONDS_MAX + GUEST_START_SECONDS_MAX,
    )


def _pytest(name: str, folder: Path, *selection: str) -> Step:
    own = folder / "-".join(name.replace("/", " ").split())
    return Step(
        name=name,
        argv=(
            *(str(BIN / "pytest"), "-q", f"--junitxml={own}.xml", "-o", "junit_family=xunit2"),
            # Two at once must not write to one cache.
            *("-o", f"cache_dir={own}.cache", *selection),
        ),
        seconds_max=PYTEST_SECONDS_MAX,
    )


def existing(paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of `paths` that exist and hold a test: pytest refuses the others."""
    return tuple(
        path for path in paths if (ROOT / path).is_file() or any((ROOT / path).rglob("test_*.py"))
    )


def _check(name: str, program: str, *arguments: str) -> Step:
    return Step(name=name, argv=(str(BIN / program), *arguments), seconds_max=CHECK_SECONDS_MAX)


class Running:
    """One step that was started, with what it writes kept until it has ended."""

    def __init__(self, step: Step, log: Path) -> None:
        self._step, self._log = step, log
        self._began = time.monotonic()
        with log.open("wb") as output:
            # A group of its own, so that a step that is given up leaves nothing running.
            self._process = subprocess.Popen(
                step.argv, cwd=ROOT, process_group=0, stdout=output, stderr=output
            )

    def has_ended(self) -> bool:
        """Tell whether it has, by itself or because its time is over."""
        return self._process.poll() is not None or self._seconds() > self._step.seconds_max

    def show(self) -> str | None:
        """Show what the step wrote and how it ended; return what went wrong, or None."""
        name, code = self._step.name, self._process.poll()
        fault = None if code == 0 else f"{name}: exit code {code}"
        if code is None:
            fault = f"{name}: no end after {self._step.seconds_max} s"
        verdict = "failed" if fault else "passed"
        say(f"== {name}: {verdict} in {self._seconds():.1f} s")
        say(self._log.read_text(errors="replace"))
        return fault

    def end(self) -> None:
        """Leave nothing of it running."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def run_all(steps: Sequence[Step], folder: Path) -> list[str]:
    """Run the steps, each lane the next that is left; return what went wrong."""
    faults: list[str] = []
    waiting, running = deque(enumerate(steps)), list[Running]()
    with ExitStack() as stack:
        while waiting or running:
            while waiting and len(running) < LANES:
                number, step = waiting.popleft()
                say(f"== {step.name}: begun")
                running.append(Running(step, folder / f"{number}.log"))
                stack.callback(running[-1].end)
            for ended in [one for one in running if one.has_ended()]:
                running.remove(ended)
                faults += [fault for fault in [ended.show()] if fault is not None]
                ended.end()
            time.sleep(LOOK_SECONDS)
    return faults


def provide_system_parts(*, may_install: bool) -> Iterator[str]:
    """Install the missing system parts, or print how to; yield what went wrong."""
    missing = [part for part in SYSTEM_PARTS if not part.is_there]
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
    reports = [ET.parse(report).getroot() for report in sorted(folder.glob("*.xml"))]
    found = [suite for report in reports for suite in report.iter("testsuite")]
    cases = [(suite.get("name", ""), case) for suite in found for case in suite.iter("testcase")]
    for place, case in cases:
        name = suite_of(case.get("classname", ""))
        suite = suites.setdefault(f"{name} in {place}" if place in GUEST_SHARES else name, Suite())
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

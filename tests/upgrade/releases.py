"""The code of earlier releases, out of the history, and the stores that it wrote.

    python tests/upgrade/releases.py      write the stores anew, one for each release

What is committed beside this was made that way. A release is the last commit before a change of
the schema that followed it; where a checkout has no history, its code cannot be had, and only the
stores that it wrote are there.
"""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
STORES = HERE / "releases"
# By the revision of their schema.
RELEASES = {
    "20261121_08": "7850d442",
    "20261122_10": "d8ad2736",
    "20261122_11": "10e6e21b",
    "20261122_18": "13f7d71a",
    "20261122_20": "0da1cda0",
}
LAST = "20261122_20"
_SECONDS_MAX = 200


def has_code(revision: str) -> bool:
    """Tell whether the history holds the release of that schema."""
    asked = ["git", "cat-file", "-e", f"{RELEASES[revision]}^{{commit}}"]
    return subprocess.run(asked, cwd=ROOT, check=False, capture_output=True).returncode == 0


def unpack(revision: str, folder: Path) -> None:
    """Put the code of a release into `folder`, with what is asked of it here."""
    archive = subprocess.run(
        ["git", "archive", RELEASES[revision]], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    here = folder / "tests" / "upgrade"
    here.mkdir(exist_ok=True)
    (here / "old_store.py").write_text((HERE / "old_store.py").read_text(encoding="utf-8"))


def command_on(code: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs `old_store` on that code, and its environment."""
    program = str(code / "tests" / "upgrade" / "old_store.py")
    paths = f"{code}{os.pathsep}{code / 'tests'}"
    return [sys.executable, program, *words], {**os.environ, "PYTHONPATH": paths}


def written(code: Path, state_dir: Path, *url: str) -> dict[str, object]:
    """Return what the store holds that a release has written to `state_dir`, or to a server."""
    words, environment = command_on(code, "write", str(state_dir), *url)
    done = subprocess.run(
        words,
        env=environment,
        cwd=code,
        check=False,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, object] = json.loads(done.stdout)
    return said


def main() -> None:
    """Write the store of each release."""
    for revision in RELEASES:
        with tempfile.TemporaryDirectory() as name:
            code, state_dir = Path(name, "code"), Path(name, "state")
            unpack(revision, code)
            said = written(code, state_dir)
            database = (state_dir / "flyball.db").read_bytes()
        target = STORES / f"{revision}.db.gz"
        target.write_bytes(gzip.compress(database, mtime=0))
        target.with_name(f"{revision}.json").write_text(json.dumps(said, indent=1) + "\n")
        sys.stdout.write(f"{revision}: {target.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()

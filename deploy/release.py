"""Make a release that can be checked, and check one.

    python -m deploy.release make OUT --key ~/.ssh/release_ed25519
    python -m deploy.release verify OUT --signers allowed_signers --identity release@example.org

A release is a wheel, a source distribution, a bill of materials and SHA256SUMS, which one
signature of OpenSSH covers. It is made of what is committed, and of nothing else; the same commit
gives the same bytes.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from deploy.bill import bill_of
from deploy.locked import LockError, read_lock

ROOT = Path(__file__).resolve().parent.parent
SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
BILL = "sbom.cdx.json"
# What a signature is for: one of the same key for something else is not taken for it.
NAMESPACE = "flyball-release"
_SECONDS_MAX = 600


class ReleaseError(Exception):
    """The release cannot be made, or is not what was signed."""


def main(words: Sequence[str] | None = None) -> int:
    """Make or verify; return 0 when all is well, 1 with the reason when not."""
    parsed = _parser().parse_args(words)
    try:
        if parsed.order == "make":
            with tempfile.TemporaryDirectory(prefix="flyball-release-") as folder:
                tree = Path(folder)
                made_s = export(parsed.ref, tree)
                make(tree, parsed.out, key=parsed.key, made_s=made_s)
        else:
            verify(parsed.out, signers=parsed.signers, identity=parsed.identity)
    except (ReleaseError, LockError, OSError) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write(
        f"{parsed.out}: {'made' if parsed.order == 'make' else 'is what was signed'}\n"
    )
    return 0


def export(ref: str, tree: Path) -> int:
    """Put what is committed at `ref` into `tree`, and return when it was committed.

    Raises:
        ReleaseError: there is no such commit.
    """
    packed = tree / "tree.tar"
    _run(["git", "-C", str(ROOT), "archive", "--format=tar", f"--output={packed}", ref])
    shutil.unpack_archive(packed, tree, filter="data")
    packed.unlink()
    return int(_run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct", ref]))


def make(tree: Path, out: Path, *, key: Path, made_s: int) -> None:
    """Build what `tree` holds into the empty folder `out`, and sign it.

    Raises:
        ReleaseError: `out` holds something, or a program failed; its own words are in the message.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise ReleaseError(f"{out} is not empty; name a new folder")
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = read_lock(tree / "requirements.lock")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(out.absolute())]
    _run(build, cwd=tree, environment={"SOURCE_DATE_EPOCH": str(made_s)})
    # Hatchling leaves a file for version control there.
    (out / ".gitignore").unlink(missing_ok=True)
    bill = bill_of(project["name"], project["version"], packages, made_s=made_s)
    (out / BILL).write_text(bill, encoding="utf-8")
    (out / SUMS).write_text(sums_of(out), encoding="utf-8")
    _run(["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(out / SUMS)])


def verify(out: Path, *, signers: Path, identity: str) -> None:
    """Return if `identity` signed exactly the files of `out`.

    Raises:
        ReleaseError: somebody else did, or a file was changed, added or removed.
    """
    told = (out / SUMS).read_bytes()
    check = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-f", str(signers), "-I", identity]
    _run([*check, "-s", str(out / SIGNATURE)], given=told)
    if sums_of(out).encode() != told:
        raise ReleaseError(f"{out}: its files are not those of {SUMS}; do not use them")


def sums_of(out: Path) -> str:
    """Return the line of each file, as `sha256sum --check` reads them."""
    files = sorted(path for path in out.iterdir() if path.name not in {SUMS, SIGNATURE})
    odd = [path.name for path in files if not path.is_file()]
    if odd:
        raise ReleaseError(f"{out}: {odd[0]} is no file of a release; do not use it")
    return "".join(f"{_digest(path)}  {path.name}\n" for path in files)


def _digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _run(
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
    given: bytes = b"",
) -> str:

    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            input=given,
            capture_output=True,
            timeout=_SECONDS_MAX,
            check=False,
        )
    except FileNotFoundError as error:
        raise ReleaseError(f"{words[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise ReleaseError(f"{words[0]} took more than {_SECONDS_MAX} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise ReleaseError(f"{' '.join(words[:3])}: {said}")
    return done.stdout.decode(errors="replace")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    orders = parser.add_subparsers(dest="order", required=True)
    making = orders.add_parser("make", help="build and sign what is committed")
    making.add_argument("out", type=Path, metavar="OUT")
    making.add_argument("--key", type=Path, required=True, help="a private key of OpenSSH")
    making.add_argument("--ref", default="HEAD", help="the commit (default: HEAD)")
    checking = orders.add_parser("verify", help="check a release that somebody made")
    checking.add_argument("out", type=Path, metavar="OUT")
    checking.add_argument("--signers", type=Path, required=True, help="OpenSSH's allowed signers")
    checking.add_argument("--identity", required=True, help="who must have signed")
    return parser


if __name__ == "__main__":
    sys.exit(main())

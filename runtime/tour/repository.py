"""A Git repository with a history that is too long for a model to read."""

import shutil
from pathlib import Path

import anyio

COMMITS = 320
_FIRST_COMMIT_AT = 1_700_000_000


def has_git() -> bool:
    """Tell whether this machine has Git."""
    return shutil.which("git") is not None


async def make_repository(folder: Path) -> Path:
    """Return a repository of `COMMITS` commits, made in `folder`."""
    repository = folder / "repository"
    await anyio.run_process(["git", "init", "--quiet", str(repository)])
    await anyio.run_process(
        ["git", "-C", str(repository), "fast-import", "--quiet"], input=_history()
    )
    return repository


def _history() -> bytes:
    """Return the history in the language of `git fast-import`; the branch is Git's default."""
    parts = []
    for number in range(1, COMMITS + 1):
        message = (
            f"Step {number}: keep the governor steady\n\n"
            f"The weights of the flyball rise with the speed; at step {number} the throttle "
            f"closes by {number % 17} of 17 parts. Gemessen, mesuré, 計測.\n"
        )
        content = f"speed = {number * 7 % 101}\n"
        parts.append(
            f"commit refs/heads/main\nmark :{number}\n"
            f"committer James <james@example.org> {_FIRST_COMMIT_AT + number * 3600} +0000\n"
            f"data {len(message.encode())}\n{message}\n"
            f"M 100644 inline throttle.txt\ndata {len(content)}\n{content}\n"
        )
    parts.append("reset refs/heads/master\nfrom refs/heads/main\n\ndone\n")
    return "".join(parts).encode()

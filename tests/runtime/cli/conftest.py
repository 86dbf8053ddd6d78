"""The `flyball` command, run in process and in a folder of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.cli import main

SETTINGS = (
    "CONFIG", "STATE", "STORE_URL", "LOG_LEVEL", "MODEL_URL", "MODEL_KEY", "MODEL_NAME",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended and what it said."""

    status: int | str | None
    out: str
    err: str


Flyball = Callable[..., Ended]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the command, empty and without settings around it."""
    for name in SETTINGS:
        monkeypatch.delenv(f"FLYBALL_{name}", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def flyball(folder: Path, capsys: pytest.CaptureFixture[str]) -> Flyball:
    """Runs one command to its end, in `folder`."""

    def run(*words: str) -> Ended:
        assert Path.cwd() == folder, "a command must not touch what lies around"
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(words)
        said = capsys.readouterr()
        return Ended(status=caught.value.code, out=said.out, err=said.err)

    return run

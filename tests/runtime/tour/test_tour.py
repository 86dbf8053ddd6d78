"""The whole tour, as an operator plays it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runtime.tour.play import STEPS

pytestmark = pytest.mark.slow

COMMAND = Path(__file__).parent / "tour_on_free_ports.py"
ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 140


def played(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    # The scripted model plays, whatever model this machine has been given.
    environment = {name: value for name, value in os.environ.items() if "FLYBALL" not in name}
    return subprocess.run(
        [sys.executable, str(COMMAND), "tour", "--exit-after-tour", *more],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for one tour after the other."""
    return tmp_path_factory.mktemp("tour")


@pytest.fixture(scope="module")
def first(folder: Path) -> subprocess.CompletedProcess[str]:
    """The first tour in the folder."""
    return played(folder, "--json")


def test_every_step_holds_and_nothing_is_left_outside_the_state_directory(
    first: subprocess.CompletedProcess[str], folder: Path
) -> None:
    said: dict[str, Any] = json.loads(first.stdout)
    endings = {step["title"]: step["ending"] for step in said["steps"]}
    # Only root is sure to find a machine that enforces everything.
    allowed = {"ok"} if os.geteuid() == 0 else {"ok", "not enforceable here"}
    assert {title: ending for title, ending in endings.items() if ending not in allowed} == {}
    assert len(endings) == len(STEPS)
    assert (first.returncode, said["ok"]) == (0, True)
    assert [path.name for path in folder.iterdir()] == [".flyball"]
    assert "Traceback" not in first.stderr


def test_a_tour_on_a_state_directory_that_was_used_before_holds_too(
    first: subprocess.CompletedProcess[str], folder: Path
) -> None:
    second = played(folder)

    assert (first.returncode, second.returncode) == (0, 0), second.stdout + second.stderr
    lines = second.stdout.splitlines()
    assert lines[0] == f"The tour: {len(STEPS)} steps on real parts."
    assert [line.split()[0] for line in lines[1:-1]] == [str(n + 1) for n in range(len(STEPS))]
    assert "failed" not in lines[-1]

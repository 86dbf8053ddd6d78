"""How a proof fares on a copy of the code in which a bug was planted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from proof.scale import SCALE_VARIABLE
from proof.seeded_bugs import SeededBug

ROOT = Path(__file__).parents[2]
# What was compiled is copied too: it holds for every file but those that are edited.
IGNORED = shutil.ignore_patterns("node_modules", ".mypy_cache")
COPIED = ("governor", "memory_store", "tool_gateway", "ebpf", "runtime", "migrations", "tests")
CONTROL_SCALE = 0.1
# What pytest's exit codes mean: the difference between finding a bug and not running at all.
PASSED, FOUND = 0, 1

# Which histories are drawn is not left to chance here. But what a seed draws follows the code
# too (hypothesis reads its constants), and a proof may miss in one run of hundreds of histories
# what the next finds: a bug has slipped through only where none of these meets it.
SEEDS = (1, 2, 3, 4)


def outcome(folder: Path, proofs: list[str], bug: SeededBug | None) -> tuple[int, str]:
    """Return pytest's exit code and what it wrote, of `proofs` on a copy with `bug`."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=IGNORED)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for edit in () if bug is None else bug.edits:
        edit.plant(folder)
    if bug is None:
        return _run(folder, proofs, seed=SEEDS[0], scale=CONTROL_SCALE)
    for seed in SEEDS:
        code, said = _run(folder, proofs, seed=seed, scale=bug.scale)
        if code != PASSED:
            break
    return code, said


def _run(folder: Path, proofs: list[str], *, seed: int, scale: float) -> tuple[int, str]:
    python = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")
    done = subprocess.run(
        [*python, f"--hypothesis-seed={seed}", *proofs],
        cwd=folder,
        env={
            **os.environ,
            SCALE_VARIABLE: str(scale),
            "PYTHONPATH": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout[-3_000:] + done.stderr[-1_000:]

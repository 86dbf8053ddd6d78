"""The file from which a long evaluation goes on: a line for each replay that is over."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.errors import RuntimeFaultError
from runtime.evaluate.os.outcome import Arm, Outcome, outcome_of


class CheckpointError(RuntimeFaultError):
    """The file of earlier replays is of no use here."""


class Checkpoint:
    """What was replayed already, and where the rest is written down."""

    def __init__(self, path: Path | None, terms: Mapping[str, Any]) -> None:
        """Read what is there; without a path nothing is kept.

        Raises:
            CheckpointError: the file is of other terms, damaged, or cannot be used.
        """
        self._path = path
        self.outcomes: list[Outcome] = []
        if path is None:
            return
        try:
            if path.exists() and path.stat().st_size:
                self._read(path, terms)
            else:
                path.write_text(json.dumps(dict(terms)) + "\n", encoding="utf-8")
        except OSError as error:
            message = f"{path}: the file to resume from cannot be used"
            raise CheckpointError(message) from error

    def has(self, *, mix: int, arm: Arm, memory_mib: int) -> bool:
        """Tell whether a replay is over."""
        return any(
            (one.mix, one.arm, one.memory_mib) == (mix, arm, memory_mib) for one in self.outcomes
        )

    def add(self, outcome: Outcome) -> None:
        """Write down a replay that is over.

        Raises:
            CheckpointError: it cannot be written.
        """
        self.outcomes.append(outcome)
        if self._path is None:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(outcome.shape(), allow_nan=False) + "\n")
        except OSError as error:
            message = f"{self._path}: what is over cannot be written down"
            raise CheckpointError(message) from error

    def _read(self, path: Path, terms: Mapping[str, Any]) -> None:
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        try:
            known = json.loads(first)
            if known != json.loads(json.dumps(dict(terms))):
                message = f"{path}: written with other terms ({first}); name another file"
                raise CheckpointError(message)
            self.outcomes = [outcome_of(json.loads(line)) for line in rest]
        except (ValueError, KeyError, TypeError) as error:
            message = f"{path}: not a file of earlier replays, or damaged; name another"
            raise CheckpointError(message) from error

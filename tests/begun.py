"""State directories whose database has the present schema from the start: copied, not made."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_store.store import DATABASE_NAME, make_private


def begin(state_dir: Path, model: Path) -> None:
    """Make a state directory with a copy of the database `model`."""
    make_private(state_dir)
    shutil.copy(model, state_dir / DATABASE_NAME)


@contextmanager
def begun_for_one(model: Path) -> Iterator[Path]:
    """Yield a state directory for one of many examples."""
    with tempfile.TemporaryDirectory() as folder:
        state_dir = Path(folder) / "state"
        begin(state_dir, model)
        yield state_dir

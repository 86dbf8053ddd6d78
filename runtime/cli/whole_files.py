"""Files that a command writes: whole in the end or not there, and readable by one user alone."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield what is written to; where the block fails, what stood at the path still does.

    What is no file, such as a pipe or `/dev/null`, is written to as it is.

    Raises:
        OSError: it cannot be written.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as straight:
            yield straight
        return
    # A name of its own: nobody can have laid a file or a link there, nor can another command.
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=".flyball-", suffix=".part", delete=False
    ) as file:
        unfinished = Path(file.name)
        try:
            yield file.file
            file.close()
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

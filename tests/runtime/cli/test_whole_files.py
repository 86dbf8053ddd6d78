"""Files that commands write are whole or not there, whatever lies beside them."""

import os
from pathlib import Path

import pytest

from runtime.cli.whole_files import written_whole


def test_a_file_is_there_once_it_is_whole_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_bytes(b"before")
    path.chmod(0o644)

    with written_whole(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"

    assert path.read_bytes() == b"after"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_bytes(b"before")

    def break_off() -> None:
        with written_whole(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()

    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_somebody_laid_beside_it_is_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "costs.csv"
    victim.write_bytes(b"kept")
    (tmp_path / "costs.csv.part").symlink_to(victim)

    with written_whole(path) as first, written_whole(path) as second:
        first.write(b"first")
        second.write(b"second")

    assert victim.read_bytes() == b"kept"
    assert not path.is_symlink()
    assert path.read_bytes() == b"first"


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with written_whole(pipe) as file:
            file.write(b"through")
        assert os.read(reading, 100) == b"through"
    finally:
        os.close(reading)
    assert pipe.is_fifo()

    with pytest.raises(IsADirectoryError), written_whole(tmp_path) as file:
        file.write(b"x")

"""The key of a state directory: made once, for its owner alone."""

from pathlib import Path

import pytest

from runtime.errors import RuntimeFaultError
from runtime.gate_key import KEY_BYTES, gate_key


def test_the_key_is_made_once_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    key = gate_key(tmp_path)

    (file,) = tmp_path.iterdir()
    assert gate_key(tmp_path) == key
    assert len(key) == KEY_BYTES
    assert file.stat().st_mode & 0o777 == 0o600


def test_two_directories_have_two_keys(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    assert gate_key(tmp_path / "one") != gate_key(tmp_path / "two")


def test_what_is_no_key_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "gate.key").write_bytes(b"short")

    with pytest.raises(RuntimeFaultError, match="remove it"):
        gate_key(tmp_path)
    with pytest.raises(RuntimeFaultError, match="No such file"):
        gate_key(tmp_path / "missing")

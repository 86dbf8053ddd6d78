import json
from pathlib import Path

from runtime.configuration.load import load_config
from tests.runtime.cli.conftest import Flyball


def test_init_writes_a_file_that_works(flyball: Flyball, folder: Path) -> None:
    ended = flyball("init")

    assert ended.status == 0
    assert load_config(folder / "flyball.toml").upstream
    assert "flyball.toml is written" in ended.out
    assert "flyball doctor" in ended.out


def test_init_writes_where_it_is_told(flyball: Flyball, folder: Path) -> None:
    path = folder / "other.toml"

    ended = flyball("init", "--config", str(path))

    assert ended.status == 0
    assert path.exists()
    assert not (folder / "flyball.toml").exists()


def test_init_never_overwrites_a_file_unasked(flyball: Flyball, folder: Path) -> None:
    path = folder / "flyball.toml"
    path.write_text("# mine\n", encoding="utf-8")

    ended = flyball("init")

    assert ended.status == 2
    assert ended.err == "flyball: flyball.toml: exists already; --force overwrites it\n"
    assert path.read_text(encoding="utf-8") == "# mine\n"


def test_init_overwrites_when_forced(flyball: Flyball, folder: Path) -> None:
    path = folder / "flyball.toml"
    path.write_text("# mine\n" * 1_000, encoding="utf-8")

    ended = flyball("init", "--force")

    assert ended.status == 0
    assert "# mine" not in path.read_text(encoding="utf-8")
    assert load_config(path)


def test_init_says_in_json_what_it_wrote(flyball: Flyball) -> None:
    ended = flyball("init", "--json")

    assert json.loads(ended.out) == {"ok": True, "config": "flyball.toml"}


def test_init_says_why_it_cannot_write(flyball: Flyball, folder: Path) -> None:
    ended = flyball("init", "--json", "--config", str(folder / "missing" / "flyball.toml"))

    assert ended.status == 2
    said = json.loads(ended.out)
    assert said["ok"] is False
    assert said["error"].endswith("cannot be written: No such file or directory")

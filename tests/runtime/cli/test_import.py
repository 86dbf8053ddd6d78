import json
from pathlib import Path

import pytest

from runtime.configuration.load import load_config
from tests.runtime.cli.conftest import Flyball

pytestmark = pytest.mark.requirement("command.import-takes-what-it-can")
LIST = {
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server-filesystem", "/srv"]},
        "issues": {"url": "https://example.org/mcp", "headers": {"Authorization": "${TOKEN}"}},
        "off": {"command": "x", "disabled": True},
    }
}


def written(folder: Path, document: object = LIST) -> str:
    path = folder / "servers.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def test_servers_are_added_to_the_file_and_what_is_left_out_is_told(
    flyball: Flyball, folder: Path
) -> None:
    flyball("init")
    before = (folder / "flyball.toml").read_text(encoding="utf-8")

    ended = flyball("import", written(folder), "--json")

    told = json.loads(ended.out)
    config = load_config(folder / "flyball.toml")
    assert ended.status == 0
    assert [one["name"] for one in told["taken"]] == ["files", "issues"]
    assert told["left"] == [{"listed_as": "off", "why": "it is disabled"}]
    assert [one.name for one in config.upstream] == ["time", "git", "files", "issues"]
    assert config.upstream[3].headers_from == {"Authorization": "TOKEN"}
    assert (folder / "flyball.toml").read_text(encoding="utf-8").startswith(before)


def test_a_second_import_changes_nothing(flyball: Flyball, folder: Path) -> None:
    flyball("import", written(folder))
    once = (folder / "flyball.toml").read_text(encoding="utf-8")

    ended = flyball("import", written(folder))

    assert (folder / "flyball.toml").read_text(encoding="utf-8") == once
    assert ended.status == 1
    assert "there is an upstream called 'files' already" in ended.out


def test_a_file_that_is_made_is_its_owners_alone_and_an_old_one_keeps_its_mode(
    flyball: Flyball, folder: Path
) -> None:
    made = folder / "flyball.toml"
    flyball("import", written(folder))
    mode_made = made.stat().st_mode & 0o777
    made.write_text("", encoding="utf-8")
    made.chmod(0o640)

    flyball("import", written(folder))

    assert mode_made == 0o600
    assert made.stat().st_mode & 0o777 == 0o640


def test_a_variable_of_another_name_is_left_with_the_words_that_take_it(
    flyball: Flyball, folder: Path
) -> None:
    server = {"command": "x", "env": {"TOKEN": "${OTHER}"}}

    ended = flyball("import", written(folder, {"mcpServers": {"a": server}}))

    assert ended.status == 1
    assert 'export it as TOKEN and write env_from = ["TOKEN"]' in ended.out


def test_a_file_that_would_not_be_valid_is_not_written(flyball: Flyball, folder: Path) -> None:
    alone = '[[upstream]]\nname = "alone"\ncommand = ["x"]\nprefix = "none"\n'
    (folder / "flyball.toml").write_text(alone, encoding="utf-8")

    ended = flyball("import", written(folder))

    assert ended.status == 2
    assert "single upstream" in ended.err
    assert (folder / "flyball.toml").read_text(encoding="utf-8") == alone


@pytest.mark.parametrize("text", ["{", "[]", None])
def test_a_file_that_is_no_list_is_told(flyball: Flyball, folder: Path, text: str | None) -> None:
    path = folder / "servers.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")

    ended = flyball("import", str(path))

    assert ended.status == 2
    assert str(path) in ended.err
    assert not (folder / "flyball.toml").exists()

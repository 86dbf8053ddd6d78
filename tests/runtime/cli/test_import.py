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
    assert ended.status == 1
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
    assert "there is an upstream called 'files' already" in ended.out


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

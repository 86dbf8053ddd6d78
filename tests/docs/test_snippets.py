"""Every snippet of the documentation is what it says: executed, or read as its reader would."""

import ast
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from docs.tools.snippets import DOCS, PARSE, ROOT, RUN, Snippet, pages, snippets_of
from runtime.configuration.load import parse_config
from tests.docs.house import Place, PythonWorker, house_in, place_in
from tests.docs.shell import Shell, commands_of, differs

# A page that starts its own sidecar, in an empty folder.
FIRST = DOCS / "start.md"
SERVES = "flyball up"
PARSE_SECONDS_MAX = 60
# What a test cannot hold against anything: an output, a picture of text.
UNREAD = {"text", "promql", "c", "ini", "dockerfile", "csv"}
CONFIG_WORDS = "not-flyball"

EVERY_PAGE = pages()
needs_programs = pytest.mark.skipif(
    any(shutil.which(program) is None for program in ("bash", "curl", "git")),
    reason="needs bash, curl and git",
)


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def with_tag(tag: str) -> list[Path]:
    return [path for path in EVERY_PAGE if any(each.tag == tag for each in snippets_of(path))]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with house_in(tmp_path_factory.mktemp("house")) as place:
        yield place


@pytest.fixture(scope="module")
def python(house: Place) -> Iterator[PythonWorker]:
    with closing(PythonWorker(house)) as worker:
        yield worker


@pytest.mark.requirement("docs.snippets-are-tagged")
@pytest.mark.parametrize("path", EVERY_PAGE, ids=named)
def test_every_snippet_says_what_a_test_does_with_it(path: Path) -> None:
    untagged = [each.place for each in snippets_of(path) if each.tag not in {RUN, PARSE}]

    assert not untagged, f"write ```LANGUAGE run or ```LANGUAGE parse: {untagged}"


@pytest.mark.requirement("docs.snippets-parse")
@pytest.mark.parametrize("path", with_tag(PARSE), ids=named)
def test_every_snippet_tagged_parse_is_well_formed(path: Path) -> None:
    for snippet in snippets_of(path):
        if snippet.tag == PARSE:
            read(snippet)


def read(snippet: Snippet) -> None:
    match snippet.language:
        case "toml" if CONFIG_WORDS not in snippet.words:
            parse_config(snippet.text, source=snippet.place)
        case "json":
            json.loads(snippet.text)
        case "yaml":
            list(yaml.safe_load_all(snippet.text))
        case "python":
            ast.parse(snippet.text, snippet.place)
        case "console" | "bash":
            is_console = snippet.language == "console"
            commands = [each.text for each in commands_of(snippet.text)] if is_console else []
            shell = ["bash", "-n", "-c", "\n".join(commands) or snippet.text]
            subprocess.run(shell, check=True, timeout=PARSE_SECONDS_MAX)
        case language:
            assert language in UNREAD | {"toml"}, f"{snippet.place}: who reads {language!r}?"


@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_programs
@pytest.mark.requirement("docs.snippets-run")
@pytest.mark.parametrize("path", [path for path in with_tag(RUN) if path != FIRST], ids=named)
def test_every_snippet_tagged_run_does_what_it_shows(
    path: Path, house: Place, python: PythonWorker
) -> None:
    with house.shell() as shell:
        for snippet in snippets_of(path):
            if snippet.tag == RUN:
                execute(snippet, house, shell, python)


@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_programs
@pytest.mark.requirement("docs.snippets-run")
def test_the_first_page_leads_from_an_empty_folder_to_a_governed_call(tmp_path: Path) -> None:
    place = place_in(tmp_path)

    with place.shell() as shell, closing(PythonWorker(place)) as python:
        for snippet in snippets_of(FIRST):
            if snippet.tag == RUN:
                execute(snippet, place, shell, python)


def execute(snippet: Snippet, place: Place, shell: Shell, python: PythonWorker) -> None:
    text = place.here(snippet.text)
    if snippet.language == "python":
        python.execute(text, page=named(snippet.path), at=snippet.place)
        return
    assert snippet.language == "console", f"{snippet.place}: only console and python are executed"
    for command in commands_of(text):
        if command.text.split("#")[0].strip() == SERVES:
            printed, status = place.serve(shell), 0
        else:
            status, printed = shell.run(command.text)
            if command.text.startswith("flyball init"):
                lead_elsewhere(place)
        shown = [place.shown(line) for line in command.shown]
        told = f"{snippet.place}: {command.text}\n{place.shown(printed)}"
        assert status == 0, f"{told}\nended with {status}"
        assert not differs(place.shown(printed), shown), f"{told}\nis not what is shown"


def lead_elsewhere(place: Place) -> None:
    """Have the file that `flyball init` wrote say the ports of this place."""
    path = place.folder / "flyball.toml"
    path.write_text(place.here(path.read_text(encoding="utf-8")), encoding="utf-8")


def test_a_page_that_shows_something_else_is_noticed() -> None:
    shown = ["budget   …   left", "…", "  12 calls"]

    assert not differs("budget   a   left\n  12 calls\n", shown)
    assert not differs("budget   a   left\nmore\nand more\n  12 calls\n", shown)
    assert differs("budget   a   left\n  13 calls\n", shown)


def test_the_tests_of_snippets_know_where_a_command_ends() -> None:
    commands = commands_of("$ curl -d '\n  {\"a\": 1}' there\nshown\n$ one \\\n  two\n")

    assert [each.text for each in commands] == ["curl -d '\n  {\"a\": 1}' there", "one \\\n  two"]
    assert commands[0].shown == ("shown",)

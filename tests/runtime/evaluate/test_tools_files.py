"""Files of tools and requests: what is read, and which line is at fault."""

import json
from pathlib import Path

import pytest

from runtime.evaluate.tools_files import Step, ToolsFileError, read_corpus, read_requests

TOOL = {"id": "a::read", "name": "read", "server": "a", "description": "Read.", "inputSchema": {}}
OTHER = {"id": "b::read", "name": "read"}
WRITE = {"id": "a::write", "name": "write"}


def lines_of(folder: Path, *lines: object, name: str = "corpus.jsonl") -> Path:
    path = folder / name
    said = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(said), encoding="utf-8")
    return path


@pytest.mark.requirement("eval.tools")
def test_a_step_wants_the_tool_that_stands_beside_it(tmp_path: Path) -> None:
    corpus = read_corpus(lines_of(tmp_path, TOOL, OTHER, WRITE))
    task = {
        "query": "the whole task",
        "steps": ["read it", "ask the oracle", "read it again", "write it"],
        "tools": ["read", "oracle", "read", "write"],
        "missing": ["oracle"],
        "gold": [["a::read", "b::read"], ["a::write"]],
        "aligned": True,
    }
    crooked = {**task, "aligned": False, "steps": ["one", "two"]}
    alone = {"query": "read and write\u2028both", "gold": ["a::read", "a::write"]}
    nothing = {"query": "unanswerable", "gold": []}

    found = read_requests(
        lines_of(tmp_path, task, "", crooked, alone, nothing, name="queries.jsonl"), corpus
    )

    reading, writing = frozenset({"a::read", "b::read"}), frozenset({"a::write"})
    assert found.steps == (
        Step(request="read it", wanted=(reading,), line=1),
        Step(request="read it again", wanted=(reading,), line=1),
        Step(request="write it", wanted=(writing,), line=1),
        Step(
            request="read and write\u2028both",
            wanted=(frozenset({"a::read"}), frozenset({"a::write"})),
            line=4,
        ),
    )
    assert found.left_out == 1 + 2 + 1


@pytest.mark.requirement("eval.tools")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2: is not JSON"),
        ("[" * 100_000, "line 2: is "),
        ("[1]", "line 2: expected an object"),
        ({"name": "x"}, "line 2: id: expected a text"),
        ({"id": "x", "name": " "}, "line 2: name: expected a text"),
        ({"id": "x", "name": "x", "description": 5}, "line 2: description: expected a text"),
        ({"id": "x", "name": "x", "inputSchema": []}, "line 2: inputSchema: expected an object"),
        (TOOL, "line 2: id 'a::read' stands in line 1 too"),
    ],
)
def test_a_fault_in_the_tools_names_its_line(tmp_path: Path, line: object, says: str) -> None:
    with pytest.raises(ToolsFileError, match=says):
        read_corpus(lines_of(tmp_path, TOOL, line))


@pytest.mark.requirement("eval.tools")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"query": "x"}, "line 2: gold: expected a list"),
        ({"query": "x", "gold": [5]}, "line 2: gold: 5 is neither"),
        ({"query": "x", "gold": [[]]}, r"line 2: gold: \[\] is neither"),
        ({"query": "x", "gold": ["c::gone"]}, "line 2: gold: no tool of the corpus is 'c::gone'"),
        ({"gold": ["a::read"]}, "line 2: query: expected a text"),
        ({"steps": "x", "tools": [], "gold": []}, "line 2: steps: expected a list"),
        (
            {"steps": ["x"], "tools": [], "gold": [], "aligned": True},
            "line 2: 1 steps and 0 tools do not align",
        ),
        (
            {"steps": ["x"], "tools": ["read"], "gold": [], "aligned": True},
            "line 2: gold: 0 groups for 1 different tools",
        ),
    ],
)
def test_a_fault_in_the_requests_names_its_line(tmp_path: Path, line: object, says: str) -> None:
    corpus = read_corpus(lines_of(tmp_path, TOOL))
    good = {"query": "read", "gold": ["a::read"]}

    with pytest.raises(ToolsFileError, match=says):
        read_requests(lines_of(tmp_path, good, line, name="queries.jsonl"), corpus)


def test_a_file_that_holds_nothing_to_judge_is_said_so(tmp_path: Path) -> None:
    corpus = read_corpus(lines_of(tmp_path, TOOL))

    with pytest.raises(ToolsFileError, match="no line has a step"):
        read_requests(lines_of(tmp_path, {"query": "x", "gold": []}, name="q.jsonl"), corpus)
    with pytest.raises(ToolsFileError, match="is empty"):
        read_corpus(lines_of(tmp_path, "", ""))
    with pytest.raises(ToolsFileError, match="No such file"):
        read_corpus(tmp_path / "gone.jsonl")


def test_a_file_that_is_no_text_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"id": "\xff"}')

    with pytest.raises(ToolsFileError, match=r"is not UTF-8 text \(byte 8\)"):
        read_corpus(path)

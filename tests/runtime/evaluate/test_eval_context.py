"""Bounded workspaces are measured on recorded runs, over a real store and a real search."""

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.cli import eval as command
from runtime.errors import RuntimeFaultError
from runtime.evaluate.conversations import read_conversations
from runtime.settings import Settings
from tests.runtime.evaluate.test_eval_command import arguments_of
from tests.runtime.model_gateway.compaction.conversations import Turn, chat


def a_run(*booked: str) -> list[dict[str, Any]]:
    """Return a run that ends with a booking of flights that searches had brought."""
    messages = chat([Turn() for _ in range(6)])
    function = {"name": "book", "arguments": json.dumps({"flights": list(booked)})}
    call = {"id": "call_b", "type": "function", "function": function}
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": "call_b", "content": "Booked."})
    return messages


def evaluated(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    arguments = arguments_of("context", "--runs", str(path), "--json", *words)
    assert command.run(arguments, Settings()) == 0
    shape: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shape


@pytest.mark.requirement("eval.context")
def test_a_run_is_smaller_comes_back_whole_and_what_it_needs_is_in_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([{"traj": a_run("FB06001", "FB02003", "none")}]))

    shape = evaluated(path, capsys, "--max-tokens", "300", "--search-tokens", "20000")

    assert shape["runs"] == 1
    assert shape["compression"]["total"] > 10
    assert shape["compression"]["workspace_tokens"] <= 300
    assert shape["compression"]["total_with_system"] < shape["compression"]["total"]
    assert shape["expansion"]["byte_exact"] == shape["expansion"]["messages"] == 15
    # What stood nowhere before is nobody's to keep.
    assert shape["arguments"]["visible_before"] == 2
    assert shape["arguments"]["kept_in_reach"] == 1
    assert shape["arguments"]["visible"] < 1


@pytest.mark.requirement("eval.context")
def test_what_cannot_be_kept_whole_stays_and_the_rest_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    run = a_run("FB06001")
    run[3]["content"] = picture
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([{"traj": run}]))

    shape = evaluated(path, capsys)

    assert run[3]["role"] == "tool"
    assert shape["expansion"]["byte_exact"] == shape["expansion"]["messages"] == 14


@pytest.mark.requirement("eval.context")
def test_a_search_that_brings_too_little_loses_what_it_does_not_bring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"messages": a_run("FB02030")}) + "\n")

    shape = evaluated(path, capsys, "--max-tokens", "120", "--search-tokens", "1")

    assert shape["arguments"]["kept_in_reach"] == 0
    assert shape["arguments"]["lost"] == {"flights": 1}
    assert shape["expansion"]["byte_exact"] == shape["expansion"]["messages"]


@pytest.mark.requirement("eval.context")
def test_a_short_run_is_never_stood_for_by_as_much_as_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.json"
    path.write_text("\ufeff" + json.dumps([{"traj": a_run("FB06001")}]), encoding="utf-8")

    shape = evaluated(path, capsys, "--max-tokens", "100000", "--parts", "8")

    # What a list shows of values is counted a little short.
    assert shape["compression"]["least"] > 7.5
    assert shape["terms"]["parts"] == 8
    assert shape["arguments"]["kept_in_reach"] == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('[{"traj": [{"role": "user", "tool_calls": "x"}]}]', "message 1: a call of a tool"),
        ('[{"traj": [{"role": "user", "tool_calls": [{"id": 1}]}]}]', '"function" with its "name"'),
        ("", "no runs"),
        ("[1]", "run 1: needs a list of messages"),
        ('[{"traj": [{"content": "x"}]}]', "run 1: needs a list of messages"),
        ("[{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("\xff", "cannot be read as JSON"),
    ],
)
def test_what_holds_no_runs_is_refused_with_what_is_wrong(
    tmp_path: Path, content: str, says: str
) -> None:
    path = tmp_path / "runs.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(RuntimeFaultError, match=says):
        read_conversations(path)
    with pytest.raises(RuntimeFaultError, match="No such file"):
        read_conversations(tmp_path / "none.json")

"""The live comparison against a real HTTP server whose model hurries when it is warned."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runtime.cli import main
from runtime.evaluate.live_tasks import TasksFileError, read_tasks

Say = Callable[[list[dict[str, str]]], str]
WORTH = {"prompt_tokens": 20, "completion_tokens": 10}
PRICES = ("--input-usd-per-mtok", "1", "--output-usd-per-mtok", "2")


def hurried(messages: list[dict[str, str]]) -> str:
    """Need as many turns as the task says, or finish at once when one turn remains."""
    need = int(re.search(r"needs (\d+)", messages[1]["content"])[1])
    turn = sum(message["role"] == "assistant" for message in messages) + 1
    is_warned = "1 turn remains" in messages[-1]["content"]
    if turn >= need or (is_warned and need - turn <= 2):
        return f"Done.\nANSWER: {need}"
    if "No turn remains" in messages[-1]["content"]:
        return f"Step {turn}.\nEXTEND: nearly there"
    return f"Step {turn}."


class Server(ThreadingHTTPServer):
    """A chat server; `say` is the model, `fails` how many requests it answers 500 first."""

    say: Say = staticmethod(hurried)
    fails = 0
    usage: object = WORTH
    asked: list[dict[str, Any]]
    keys: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    # One packet for each answer: two would wait for the client's acknowledgement in between.
    wbufsize = 65_536

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        self.server.keys.append(self.headers.get("Authorization"))
        status, answer = 200, {
            "choices": [{"message": {"role": "assistant", "content": ""}}],
            "usage": self.server.usage,
        }  # fmt: skip
        if self.server.fails:
            self.server.fails -= 1
            status, answer = 500, {"error": "busy"}
        else:
            answer["choices"][0]["message"]["content"] = self.server.say(body["messages"])
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as opened:
        opened.asked, opened.keys = [], []
        thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield opened
        finally:
            opened.shutdown()
            thread.join()


@pytest.fixture
def tasks_file(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    needs = [2, 3, 4, 5, 6, 9] * 2
    lines = [
        {"id": f"t{number}", "prompt": f"It needs {need} turns.", "check": {"exact": str(need)}}
        for number, need in enumerate(needs)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def evaluate(
    server: Server, tasks_file: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str]]:  # fmt: skip
    for name in ("FLYBALL_MODEL_URL", "FLYBALL_MODEL_KEY", "FLYBALL_MODEL_NAME", "NO_SUCH_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        live = ("eval", "turns", "--live", "--tasks", str(tasks_file), "--base-url", url)
        with pytest.raises(SystemExit) as ended:
            main([*live, *words])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return run


@pytest.mark.requirement("eval.live-turns")
def test_every_arm_is_run_with_a_real_server_and_told_its_limits(
    server: Server, evaluate: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-live")

    status, out = evaluate(*PRICES, "--key-env", "MY_KEY", "--model", "m-1", "--json")

    shape = json.loads(out)
    (result,) = shape["results"]
    arms = {arm["name"]: arm for arm in result["strategies"]}
    assert (status, shape["live"], shape["splits"], result["growth"]) == (0, True, 2, "measured")
    assert list(arms) == ["unlimited", "fixed_p75", "dynamic"]
    assert arms["unlimited"] == {
        "name": "unlimited",
        "cost_saved": 0.0,
        "solve_rate_delta_pp": 0.0,
        "cost_of_pass_ratio": 1.0,
    }
    # The two long tasks are cut; those that a warning hurries are solved, and cost less.
    assert arms["fixed_p75"]["cost_saved"] > 0
    assert arms["fixed_p75"]["solve_rate_delta_pp"] == pytest.approx(-100 * 2 / 12)
    # An extension on request solves one that the fixed limit cuts.
    assert arms["dynamic"]["solve_rate_delta_pp"] > arms["fixed_p75"]["solve_rate_delta_pp"]
    report = shape["report"]
    assert report["arms"]["fixed_p75"]["mean_turns"] < report["arms"]["unlimited"]["mean_turns"]
    assert report["spent_microusd"] == 40 * len(server.asked)
    assert (report["tasks_compared"], report["is_capped"], report["failures"]) == (12, False, [])
    assert set(server.keys) == {"Bearer sk-live"}
    assert {request["model"] for request in server.asked} == {"m-1"}


def test_the_free_arm_is_told_of_no_limit(
    server: Server, evaluate: Callable[..., tuple[int, str]]
) -> None:
    evaluate(*PRICES, "--turns-max", "20")

    free = server.asked[: sum([2, 3, 4, 5, 6, 9] * 2)]
    assert not [one for one in free if "remain" in one["messages"][-1]["content"]]
    assert not [one for one in free if "turns in all" in one["messages"][0]["content"]]
    assert [one for one in server.asked if "turns in all" in one["messages"][0]["content"]]


def test_no_request_is_sent_that_could_break_the_cap(
    server: Server, evaluate: Callable[..., tuple[int, str]]
) -> None:
    status, out = evaluate(*PRICES, "--max-usd", "0.006", "--json")

    report = json.loads(out)["report"]
    assert status == 0
    assert report["is_capped"]
    assert 0 < report["tasks_compared"] < 12
    assert 40 * len(server.asked) == report["spent_microusd"] <= 6_000


def test_a_cap_that_allows_no_comparison_is_told(
    server: Server, evaluate: Callable[..., tuple[int, str]]
) -> None:
    status, out = evaluate(*PRICES, "--max-usd", "0.0001")

    assert (status, server.asked) == (2, [])
    assert "raise --max-usd" in out


def test_a_provider_that_reports_no_usage_is_taken_at_the_most_it_can_bill(
    server: Server, evaluate: Callable[..., tuple[int, str]]
) -> None:
    server.usage = {"prompt_tokens": -5, "completion_tokens": "many"}

    _, out = evaluate(*PRICES, "--json")

    assert json.loads(out)["report"]["spent_microusd"] > 1_000 * len(server.asked)


def test_a_failing_request_leaves_its_task_out_and_three_in_a_row_end_it(
    server: Server, evaluate: Callable[..., tuple[int, str]]
) -> None:
    server.fails = 2
    status, out = evaluate(*PRICES, "--json")
    report = json.loads(out)["report"]
    server.fails = 3
    ended, told = evaluate(*PRICES)

    assert (status, report["tasks_compared"], len(report["failures"])) == (0, 10, 2)
    assert ended == 2
    assert "500" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--input-usd-per-mtok"),
        ((*PRICES, "--key-env", "NO_SUCH_KEY"), "NO_SUCH_KEY is not set"),
        ((*PRICES, "--max-usd", "-1"), "not an amount"),
        ((*PRICES, "--turns-max", "0"), "not a whole number"),
        ((*PRICES, "--runs", "x.csv"), "either --runs"),
        ((*PRICES, "--base-url", "ftp://x"), "http://"),
    ],
)
def test_what_is_missing_or_wrong_is_told_before_a_request_is_sent(
    server: Server, evaluate: Callable[..., tuple[int, str]], words: tuple[str, ...], told: str
) -> None:
    status, out = evaluate(*words)

    assert (status, server.asked) == (2, [])
    assert told in out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2: not JSON"),
        ("[]", 'line 2: expected {"id"'),
        ('{"id": "a", "prompt": " ", "check": "x"}', "line 2: prompt"),
        ('{"id": "a", "prompt": "p", "check": {"regex": "("}}', "line 2: check.regex"),
        ('{"id": "a", "prompt": "p", "check": {"exact": "x", "regex": "x"}}', "line 2: check"),
        ('{"id": "b", "prompt": "p", "check": "x"}', "two tasks have the same id"),
        ("", "1 tasks"),
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": "b", "prompt": "p", "check": {"regex": "x"}}\n' + line + "\n")

    with pytest.raises(TasksFileError, match=re.escape(told)):
        read_tasks(path)

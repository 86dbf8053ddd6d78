"""What the commands show of a sidecar that serves, and say where none does."""

import csv
import http.server
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from governor.amounts import Unit
from governor.scope import ScopeKind
from runtime.cli import call_pages
from runtime.cli.bench_load import Work, load
from runtime.cli.commands import COMMANDS
from runtime.cli.focus import COLUMNS
from runtime.configuration.listen import Listen
from runtime.configuration.model import BudgetTable, Config
from runtime.errors import RuntimeFaultError
from runtime.serving import serving
from tests.runtime.cli.conftest import Flyball

# More than a page of them.
CALLS, CALLERS = 210, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A sidecar that served so many calls, and what a command is told of where it is."""

    agents_url: str
    state: Path
    words: tuple[str, ...]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    listen = Listen(agents="127.0.0.1:0", admin="127.0.0.1:0")
    budget = BudgetTable(id="all", scope=ScopeKind.TENANT, limits={Unit.TOOL_CALLS: 100_000})
    serve = serving(Config(listen=listen, budget=(budget,)), state_dir=folder / "state")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serve) as (_, listeners),
    ):
        places = {"agents": listeners.agents_url, "admin": listeners.admin_url}
        lines = (f'{name} = "{url.removeprefix("http://")}"' for name, url in places.items())
        (folder / "flyball.toml").write_text("\n".join(("[listen]", *lines)), encoding="utf-8")
        made = House(
            agents_url=listeners.agents_url,
            state=folder / "state",
            words=("--config", str(folder / "flyball.toml"), "--state", str(folder / "state")),
        )
        portal.call(called, made)
        yield made


async def called(house: House) -> None:
    """Make so many calls, those that open the connections included."""
    work = Work(
        url=f"{house.agents_url}/mcp",
        token=(house.state / "agent.token").read_text(encoding="utf-8").strip(),
        session="past",
        tool="tools_search",
        arguments={"query": "status"},
        calls=CALLS - CALLERS,
        callers=CALLERS,
    )
    with anyio.fail_after(100):
        outcome = await load(work, done=lambda: None)
        await load(replace(work, session="doomed", calls=1, callers=1), done=lambda: None)
    assert (len(outcome.samples_ns), outcome.faults) == (CALLS - CALLERS, [])


@pytest.mark.requirement("commands.export")
def test_calls_are_listed_and_one_is_shown_whole(flyball: Flyball, house: House) -> None:
    listed = flyball("calls", "--limit", "2", *house.words)
    items = json.loads(flyball("calls", "--since", "1h", "--json", *house.words).out)["items"]
    nothing = flyball("calls", "--until", "2020-01-01", *house.words)
    one = flyball("calls", items[0]["id"], *house.words)

    head, first, *_, last = listed.out.splitlines()
    assert head.split()[:4] == ["call", "ended", "kind", "name"]
    assert first.split()[0] == items[0]["id"]
    assert last == "more follow: raise --limit"
    assert nothing.out == "No such call has ended.\n"
    shown = dict(line.split(maxsplit=1) for line in one.out.splitlines())
    assert (shown["call"], shown["status"]) == (items[0]["id"], "ok")
    assert "1 tool_calls" in shown["charged"]


@pytest.mark.requirement("commands.export")
def test_every_call_is_exported_once_page_by_page(
    flyball: Flyball, house: House, folder: Path
) -> None:
    lines = flyball("export", "--kind", "tool", "--agent", "agent", *house.words).out.splitlines()
    told = flyball("export", "--csv", "all.csv", "--json", *house.words)

    ids = [json.loads(line)["id"] for line in lines]
    assert len(ids) == len(set(ids)) >= CALLS
    rows = list(csv.DictReader((folder / "all.csv").read_text(encoding="utf-8").splitlines()))
    assert json.loads(told.out)["rows"] == len(rows) == len(ids)
    assert rows[0]["charged_tool_calls"] == "1"
    assert (folder / "all.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("commands.focus")
def test_costs_are_exported_as_focus_rows(flyball: Flyball, house: House) -> None:
    lines = flyball("export", "--focus", "--by", "day", *house.words).out.splitlines()

    rows = list(csv.DictReader(lines))
    assert tuple(rows[0]) == COLUMNS
    assert sum(int(row["x_Calls"]) for row in rows) >= CALLS
    assert {row["BillingAccountId"] for row in rows} == {"default"}


@pytest.mark.requirement("commands.export")
def test_an_export_that_breaks_off_leaves_what_was_there(
    flyball: Flyball, house: House, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeFaultError("the sidecar went away")

    (folder / "calls.jsonl").write_text("of yesterday\n", encoding="utf-8")
    nowhere = flyball("export", "no-such-folder/calls.csv", *house.words)
    monkeypatch.setattr(call_pages, "asked", broken)
    ended = flyball("export", "calls.jsonl", *house.words)

    assert (nowhere.status, ended.status) == (2, 2)
    assert "no-such-folder/calls.csv: cannot be written: No such file or directory" in nowhere.err
    assert [path.name for path in folder.iterdir()] == ["calls.jsonl"]
    assert (folder / "calls.jsonl").read_text(encoding="utf-8") == "of yesterday\n"


def test_json_and_rows_do_not_share_one_output(flyball: Flyball, house: House) -> None:
    ended = flyball("export", "--json", *house.words)

    assert ended.status == 2
    assert "name a FILE" in json.loads(ended.out)["error"]


@pytest.mark.requirement("commands.top")
def test_the_overview_of_a_real_sidecar_is_told(flyball: Flyball, house: House) -> None:
    told = flyball("top", "--agent", "agent", *house.words)
    answer = json.loads(flyball("top", "--json", *house.words).out)

    assert told.status == 0
    assert "Running: none" in told.out
    assert next(line for line in told.out.splitlines() if line.startswith("all ")).split()[1:3] == [
        "default", "tool_calls",
    ]  # fmt: skip
    assert sum(answer["calls"].values()) >= CALLS


@pytest.mark.requirement("commands.bench")
def test_a_measurement_times_calls_and_finds_them_on_record(flyball: Flyball, house: House) -> None:
    words = ("bench", "--calls", "20", "--callers", "1,4", "--json", *house.words)

    told = json.loads(flyball(*words).out)

    one, four = told["results"]
    assert (told["ok"], told["called"], told["recorded"]) == (True, 45, 45)
    assert (one["calls"], four["calls"]) == (20, 20)
    assert 0 < one["p50_ms"] <= one["p90_ms"] <= one["p99_ms"] <= one["max_ms"]


@pytest.mark.requirement("commands.bench")
def test_calls_that_do_not_run_are_told_and_not_timed(flyball: Flyball, house: House) -> None:
    words = ("--tool", "memory_read", "--arguments", '{"index": "arc_none"}')

    ended = flyball("bench", "--calls", "3", "--callers", "1", *words, *house.words)

    assert ended.status == 1
    assert "not run: the tool failed" in ended.out


@pytest.mark.requirement("commands.completion")
def test_bash_completes_commands_options_and_values(flyball: Flyball, folder: Path) -> None:
    script = folder / "flyball.bash"
    script.write_text(flyball("completion", "bash").out, encoding="utf-8")

    def completed(*words: str) -> set[str]:
        asked = " ".join(f'"{word}"' for word in ("flyball", *words))
        setting = f". ./{script.name}; COMP_WORDS=({asked}); COMP_CWORD={len(words)};"
        telling = 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", f"{setting} _shtab_flyball; {telling}"],
            cwd=folder, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return set(done.stdout.split())

    assert completed("") >= set(COMMANDS)
    assert completed("bud") == {"budgets"}
    assert "--focus" in completed("export", "--f")
    assert completed("calls", "--status", "den") == {"denied"}
    assert completed("token", "r") == {"rotate", "revoke"}


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_get_every_command(flyball: Flyball, shell: str) -> None:
    script = flyball("completion", shell).out

    assert {name for name in COMMANDS if name not in script} == set()


@pytest.mark.requirement("commands.what-next")
def test_a_token_of_another_sidecar_is_told_with_where_it_is_from(
    flyball: Flyball, house: House, folder: Path
) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "admin.token").write_text("fbt_other\n", encoding="utf-8")

    ended = flyball("budgets", *house.words[:2], "--state", "other")

    assert ended.status == 2
    assert f"does not know the token in {folder / 'other' / 'admin.token'}" in ended.err
    assert "--state DIR or FLYBALL_STATE has to name" in ended.err


class Stranger(http.server.BaseHTTPRequestHandler):
    """A server that is no Flyball."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"<html")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def nowhere(folder: Path) -> tuple[str, ...]:
    (folder / "state").mkdir()
    (folder / "state" / "admin.token").write_text("fbt_made-up\n", encoding="utf-8")
    return ("--config", "there.toml", "--state", "state")


@pytest.mark.requirement("commands.what-next")
def test_a_server_that_is_no_flyball_is_told_from_one(
    flyball: Flyball, folder: Path, nowhere: tuple[str, ...]
) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        where = f"127.0.0.1:{server.server_port}"
        there = folder / "there.toml"
        there.write_text(f'[listen]\nadmin = "{where}"\n', encoding="utf-8")
        plain = flyball("budgets", *nowhere)
        there.write_text(
            f'[listen]\nadmin = "{where}"\ntls_cert = "c"\ntls_key = "k"\n', encoding="utf-8"
        )
        with_tls = flyball("budgets", *nowhere)
        server.shutdown()

    assert f"what answers at http://{where} is no Flyball" in plain.err
    assert f"what answers at https://{where} does not speak HTTPS" in with_tls.err


@pytest.mark.parametrize(
    "command", [("top",), ("calls",), ("export",), ("budgets",), ("tiers", "list")]
)
@pytest.mark.requirement("commands.what-next")
def test_where_no_sidecar_answers_every_command_says_how_to_start_one(
    flyball: Flyball, folder: Path, nowhere: tuple[str, ...], command: tuple[str, ...]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        text = f'[listen]\nadmin = "{where}"\n'
        (folder / "there.toml").write_text(text, encoding="utf-8")
        ended = flyball(*command, *nowhere)

    assert (ended.status, ended.out) in {(2, ""), (2, "\n")}
    assert f"no sidecar answers at http://{where}: start one with `flyball up`" in ended.err


def test_a_state_directory_that_is_not_there_is_told(flyball: Flyball) -> None:
    ended = flyball("sessions", "--state", "gone")

    assert f"{Path.cwd() / 'gone'}: there is no such state directory" in ended.err
    assert os.environ.get("FLYBALL_STATE") is None


@pytest.mark.requirement("commands.session")
def test_a_session_is_told_with_its_bill_and_what_happened(flyball: Flyball, house: House) -> None:
    told = flyball("sessions", "agent/past", "--limit", "3", *house.words)
    answer = json.loads(flyball("sessions", "agent/past", "--json", *house.words).out)
    unknown = flyball("sessions", "agent/nobody", *house.words)

    assert told.out.splitlines()[0].split() == ["session", "agent/past"]
    assert f"{CALLS} ok" in told.out
    assert told.out.count("tools_search") == 3
    assert told.out.endswith("more follow: raise --limit\n")
    assert len(answer["items"]) == 50
    assert "agent has no session nobody; `flyball sessions` lists them" in unknown.err


@pytest.mark.requirement("commands.session")
def test_a_session_is_frozen_resumed_and_ended(flyball: Flyball, house: House) -> None:
    deeds = [
        flyball("sessions", "agent/doomed", f"--{deed}", *house.words)
        for deed in ("freeze", "resume", "kill")
    ]
    shown = flyball("sessions", "agent/doomed", *house.words).out
    nobody = flyball("sessions", "--kill", *house.words)

    assert [deed.status for deed in deeds] == [0, 0, 0]
    assert "is frozen" in deeds[0].out
    assert "by admin" in next(line for line in shown.splitlines() if line.startswith("state"))
    assert "session.close" in shown
    assert "--kill which session?" in nobody.err


@pytest.mark.requirement("commands.preview")
def test_a_changed_budget_is_tried_on_past_calls(flyball: Flyball, house: House) -> None:
    words = ("budgets", "--preview", "all", "--limits", "tool_calls=20")

    told = flyball(*words, *house.words)
    answer = json.loads(flyball(*words, "--json", *house.words).out)
    alone = flyball("budgets", "--limits", "tool_calls=20", *house.words)
    wrong = flyball("budgets", "--preview", "all", "--limits", "calls=20", *house.words)

    assert answer["newly_denied"] == answer["after"]["denied"] >= CALLS - 20
    assert "As it stands it denies 0: " in told.out
    assert "tools_search" in told.out
    assert "--limits goes with --preview BUDGET" in alone.err
    assert "'calls=20' is no limit: say UNIT=N with cost_microusd" in wrong.err


@pytest.mark.requirement("commands.json")
def test_what_writes_a_file_tells_of_it_in_json_and_never_mixes_the_two(
    flyball: Flyball, house: House, folder: Path
) -> None:
    told = json.loads(flyball("memory", "export", "kept.jsonl", "--json", *house.words).out)
    mixed = flyball("memory", "export", "-", "--json", *house.words)

    size = (folder / "kept.jsonl").stat().st_size
    assert told == {"ok": True, "file": "kept.jsonl", "bytes": size}
    assert (mixed.status, json.loads(mixed.out)["ok"]) == (2, False)

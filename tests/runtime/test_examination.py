"""What `flyball doctor` looks at and what it makes of it."""

import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from ports import a_port
from pydantic import SecretStr

from ebpf.capability import BackendKind, Capability, CapabilityState, Host
from memory_store.lock import exclusive
from runtime import examination, sound_parts
from runtime.configuration.listen import Listen
from runtime.configuration.load import config_version, load_config
from runtime.errors import ConfigError
from runtime.examination import Examination, examine
from runtime.findings import Finding, Mark
from runtime.listeners import bind
from runtime.settings import Settings

ABSENT = Capability(
    name="memory", state=CapabilityState.ABSENT, by="nothing", why="no control groups"
)
FREE_PORTS = '[listen]\nagents = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'

Examined = Callable[[str], Mapping[str, Finding]]


@pytest.fixture(autouse=True)
def bare_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that can enforce nothing, without making domains to be sure."""
    host = Host(backend=BackendKind.RLIMIT, capabilities=(ABSENT,), is_root=False, landlock_abi=0)
    monkeypatch.setattr(examination, "probe_host", lambda: host)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(config=tmp_path / "flyball.toml", state=tmp_path / "state")


@pytest.fixture
def examined(settings: Settings) -> Examined:
    """Examines with a configuration and returns the findings by what they are about."""

    def by_name(text: str) -> Mapping[str, Finding]:
        settings.config.write_text(FREE_PORTS + text, encoding="utf-8")
        return {finding.what: finding for finding in examine(settings).findings}

    return by_name


def test_a_sound_installation_has_no_fault_and_names_its_version(
    examined: Examined, settings: Settings
) -> None:
    findings = examined("")

    assert [finding.what for finding in findings.values() if not finding.is_ok] == []
    assert set(findings) == {
        str(settings.config),
        "listen.agents",
        "listen.admin",
        "store",
        "console",
        "contention.shed",
        "state",
        "disk",
        "packages",
        "owners",
    }
    version = config_version(load_config(settings.config))
    assert findings[str(settings.config)].told == f"valid, version {version}"


def test_a_capability_that_is_absent_is_told_and_is_no_fault(settings: Settings) -> None:
    settings.config.write_text(FREE_PORTS, encoding="utf-8")

    examined = examine(settings)

    assert examined.is_ok
    assert examined.capabilities == (ABSENT,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lissten]\n", "did you mean 'listen'?"),
        ("[default]\nlimits = { wall_ms = 1 }\nestimate = { wall_ms = 2 }\n", "estimate_wall_ms"),
        ('[[upstream]]\nname = "a"\ncommand = ["a"]\nenv_from = ["NO_SUCH"]\n', "NO_SUCH"),
        (
            '[[provider]]\nname = "a"\nbase_url = "http://a.test"\napi_key_from = "NO_SUCH"\n',
            "NO_SUCH",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used_is_a_fault_in_its_own_words(
    text: str,
    said: str,
    examined: Examined,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)

    finding = examined(text)[str(settings.config)]

    assert not finding.is_ok
    assert said in finding.told


def test_a_configuration_that_is_not_there_is_a_fault_that_names_init(settings: Settings) -> None:
    findings = {finding.what: finding for finding in examine(settings).findings}

    assert "flyball init" in findings[str(settings.config)].told
    # What does not depend on the configuration is looked at all the same.
    assert findings["packages"].is_ok


@pytest.mark.requirement("input.upstream-cannot-start")
def test_a_program_that_is_not_installed_is_a_fault_with_the_fix(examined: Examined) -> None:
    finding = examined('[[upstream]]\nname = "a"\ncommand = ["no-such-server"]\n')["upstream a"]

    assert not finding.is_ok
    assert finding.told == "no-such-server is not on PATH; install it or give its full path"


def test_a_program_that_is_there_is_shown_by_its_path(examined: Examined) -> None:
    text = f'[[upstream]]\nname = "a"\ncommand = ["{sys.executable}"]\n'

    finding = examined(text)["upstream a"]

    assert finding.is_ok
    assert finding.told == sys.executable


def test_an_upstream_that_runs_elsewhere_is_shown_without_its_keys_and_not_asked(
    examined: Examined,
) -> None:
    text = '[[upstream]]\nname = "a"\nurl = "http://a.test:8/mcp?key=s3cret"\n'

    finding = examined(text)["upstream a"]

    assert finding.is_ok
    assert finding.told == ("http://a.test:8/mcp (not asked; `flyball up` says whether it answers)")


def test_a_model_provider_is_shown_with_how_it_is_treated_and_what_is_doubtful(
    examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", "sk-0123456789abcdef")

    findings = examined(
        '[[provider]]\nname = "lab"\nbase_url = "http://lab.test/v1"\napi_key_from = "LAB_KEY"\n'
    )

    shown, doubted = findings["provider lab"], findings["provider lab base_url"]
    assert shown.mark is Mark.OK
    assert "keys from LAB_KEY" in shown.told
    assert doubted.mark is Mark.WARNING
    assert "without encryption" in doubted.told


def test_a_fault_names_the_file_once(examined: Examined, settings: Settings) -> None:
    finding = examined('[lissten]\n[[rule]]\nname = 1\ntool = "a"\n')[str(settings.config)]

    assert "rule[0].name" in finding.told
    assert str(settings.config) not in finding.told


def test_a_port_of_the_sidecar_that_runs_here_is_no_fault(settings: Settings) -> None:
    settings.state.mkdir(mode=0o700)
    with bind("127.0.0.1:0", Listen()).listening as taken, exclusive(settings.state):
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings.config.write_text(
            f'[listen]\nagents = "{address}"\nadmin = "127.0.0.1:0"\n', encoding="utf-8"
        )

        findings = {finding.what: finding for finding in examine(settings).findings}

    assert findings["listen.agents"].is_ok
    assert findings["listen.agents"].told == (
        f"{address} is served by the sidecar that runs here (pid {os.getpid()})"
    )


def test_a_port_in_use_is_a_fault_of_its_listener_alone(settings: Settings) -> None:
    bound = bind("127.0.0.1:0", Listen())
    with bound.listening as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings.config.write_text(
            f'[listen]\nagents = "{address}"\nadmin = "127.0.0.1:0"\n', encoding="utf-8"
        )

        findings = {finding.what: finding for finding in examine(settings).findings}

    assert not findings["listen.agents"].is_ok
    assert address in findings["listen.agents"].told
    assert findings["listen.admin"].is_ok


def test_the_examination_leaves_the_ports_free(settings: Settings) -> None:
    port = a_port()
    settings.config.write_text(
        f'[listen]\nagents = "127.0.0.1:{port}"\nadmin = "127.0.0.1:0"\n', encoding="utf-8"
    )

    examine(settings)

    bind(f"127.0.0.1:{port}", Listen()).listening.close()


@pytest.mark.parametrize(("mode", "is_ok"), [(0o700, True), (0o750, False), (0o701, False)])
def test_a_state_directory_that_others_can_enter_is_a_fault_with_the_fix(
    mode: int, examined: Examined, settings: Settings, *, is_ok: bool
) -> None:
    settings.state.mkdir()
    settings.state.chmod(mode)

    finding = examined("")["state"]

    assert finding.is_ok is is_ok
    assert (f"chmod 700 {settings.state}" in finding.told) is not is_ok


def test_the_examination_makes_no_state_directory(examined: Examined, settings: Settings) -> None:
    finding = examined("")["state"]

    assert finding.is_ok
    assert not settings.state.exists()


@pytest.mark.requirement("package.exactly-five")
def test_a_package_that_shadows_one_of_ours_is_a_fault_with_both_places(
    examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec

    def shadowed(name: str) -> object:
        if name == "ebpf":
            return SimpleNamespace(origin="/elsewhere/ebpf/__init__.py")
        return real(name)

    monkeypatch.setattr(examination.importlib.util, "find_spec", shadowed)

    finding = examined("")["packages"]

    assert not finding.is_ok
    assert "/elsewhere" in finding.told


@pytest.mark.parametrize(
    ("file", "listed"),
    [
        ("RECORD", "numbers/x.py,,\ngovernor/__init__.py,,\n"),
        ("RECORD", "governor.py,,\n"),
        ("top_level.txt", "numbers\ngovernor\n"),
    ],
)
def test_another_distribution_of_our_names_is_a_fault_that_names_it(
    examined: Examined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, listed: str
) -> None:
    for name, text in {"some-governor": listed, "innocent": listed.replace("gov", "/gov")}.items():
        installed = tmp_path / "site" / f"{name}-1.0.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n", encoding="utf-8")
        (installed / file).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")

    finding = examined("")["owners"]

    assert not finding.is_ok
    assert finding.told.startswith("some-governor ships a package of the same name")


@pytest.mark.parametrize("is_ok", [True, False])
def test_the_public_json_has_the_agreed_shape(*, is_ok: bool) -> None:
    examined = Examination(
        capabilities=(ABSENT,),
        findings=(
            Finding(what="state", mark=Mark.OK if is_ok else Mark.BAD, told="yours alone"),
            Finding(what="rule a", mark=Mark.WARNING, told="mind"),
        ),
    )

    assert examined.shape() == {
        "ok": is_ok,
        "capabilities": [
            {"name": "memory", "state": "absent", "by": "nothing", "why": "no control groups"}
        ],
        "config": {
            "state": {"ok": is_ok, "mark": "ok" if is_ok else "BAD", "told": "yours alone"},
            "rule a": {"ok": True, "mark": "warn", "told": "mind"},
        },
    }


SHELL = '[[rule]]\nname = "sh"\ntool = "shell_run"\n'


def test_a_required_rule_that_this_host_cannot_hold_is_a_fault_with_the_fix(
    examined: Examined,
) -> None:
    finding = examined(SHELL)["rule sh"]

    assert finding.mark is Mark.BAD
    assert "every call is denied" in finding.told
    assert 'isolation = "best_effort"' in finding.told


def test_a_best_effort_rule_without_a_fence_is_a_warning_that_says_what_is_open(
    examined: Examined, settings: Settings
) -> None:
    settings.state.mkdir(mode=0o700)

    finding = examined(SHELL + 'isolation = "best_effort"\n')["rule sh"]

    assert finding.mark is Mark.WARNING
    assert finding.is_ok
    assert f"a command could read and change {settings.state}" in finding.told
    assert "local.workdir" in finding.told


def test_the_interpreter_of_python_run_is_named_where_a_rule_allows_it(
    examined: Examined, tmp_path: Path
) -> None:
    rule = '[[rule]]\nname = "py"\ntool = "python_run"\n'

    missing = examined(f'[local]\npython = "{tmp_path}/none"\n{rule}')["local.python"]
    present = examined(f'[local]\npython = "/bin/sh"\n{rule}')["local.python"]

    assert missing.mark is Mark.BAD
    assert present.told == "python_run runs /bin/sh"
    assert "local.python" not in examined(SHELL)


@pytest.mark.parametrize("user", ["no-such-user", "root"])
def test_a_user_that_commands_cannot_run_as_is_a_fault(
    examined: Examined, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    host = Host(backend=BackendKind.RLIMIT, capabilities=(ABSENT,), is_root=True, landlock_abi=0)
    monkeypatch.setattr(examination, "probe_host", lambda: host)

    finding = examined(f'[local]\nuser = "{user}"\n')["local.user"]

    assert not finding.is_ok
    assert user in finding.told


def test_a_state_path_that_is_a_file_is_a_fault(examined: Examined, settings: Settings) -> None:
    settings.state.write_text("")
    settings.state.chmod(0o600)

    finding = examined("")["state"]

    assert not finding.is_ok
    assert "is no directory" in finding.told


def test_a_budget_that_contradicts_itself_is_a_fault(
    examined: Examined, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contradiction(*_: object, **__: object) -> None:
        raise ConfigError("budget a: window: too long")

    monkeypatch.setattr(sound_parts, "budgets_of", contradiction)

    table = '[[budget]]\nid = "a"\nscope = "tenant"\nlimits = { tool_calls = 1 }\n'
    assert "budget a" in examined(table)[str(settings.config)].told


def test_the_store_in_use_is_named(examined: Examined, settings: Settings) -> None:
    assert str(settings.state) in examined("")["store"].told

    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
    shared = (
        f'[store]\nurl = "postgresql://flyball@127.0.0.1:{port}/books"\ndurability = "process"\n'
    )
    found = examined(shared)["store"]

    place = f"the PostgreSQL database books at 127.0.0.1:{port}, durability process"
    assert found.mark is Mark.BAD
    assert found.told.startswith(f"{place}: it cannot be read (")
    assert "start the server, or mend the URL" in found.told


@pytest.mark.requirement("shared.password-unseen")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://flyball:s3cret-word@db.example/books",
        "postgresql://db.example/books?user=flyball&password=s3cret-word",
        "postgresql://flyball:s3cret-word@db.example:port/books",
        "mysql://flyball:s3cret-word@db.example/books",
    ],
)
def test_the_stores_password_is_not_told(url: str, settings: Settings) -> None:
    settings.config.write_text(FREE_PORTS, encoding="utf-8")
    shared = settings.model_copy(update={"store_url": SecretStr(url)})

    told = repr(examine(shared).findings)

    assert "store" in told
    assert "s3cret-word" not in told


def test_a_budget_for_an_agent_that_there_will_not_be_is_a_warning(examined: Examined) -> None:
    findings = examined(
        '[[budget]]\nid = "b"\nscope = "agent"\nsubject = "agnet"\nlimits = { tool_calls = 1 }\n'
    )

    finding = findings["budget b"]
    assert (finding.mark, finding.is_ok) == (Mark.WARNING, True)
    assert "'agnet' is no principal" in finding.told


@pytest.mark.parametrize(
    "limited",
    [
        '[turns]\nmode = "fixed"\nturns = 3\n',
        '[[turn_rule]]\nagent = "a"\nmode = "dynamic"\n',
        '[[budget]]\nid = "b"\nscope = "agent"\nlimits = { turns = 3 }\n',
    ],
)
def test_a_turn_limit_that_denies_clients_which_name_no_turns_is_a_warning(
    examined: Examined, limited: str
) -> None:
    warned = examined(limited)["turns"]
    covered = examined(f"[default]\nturn_per_call = true\n{limited}")

    assert warned.mark is Mark.WARNING
    assert "turn_per_call = true" in warned.told
    assert "turns" not in covered


FILES = '[[upstream]]\nname = "files"\ncommand = ["sh"]\n'
LOCAL_RULE = '[[rule]]\nname = "r"\ntool = "shell_run"\nisolation = "best_effort"\n'


@pytest.mark.parametrize(
    ("text", "what", "mark", "said"),
    [
        (f'[local]\nworkdir = "/no/such"\n{LOCAL_RULE}', "local.workdir", Mark.BAD, "no directory"),
        (f"{LOCAL_RULE}probe_limits = {{ nope = 3 }}\n", "rule r probes", Mark.WARNING, "'nope'"),
        (
            '[[rule]]\nname = "r"\ntool = "shell_rum"\n',
            "rule r tool",
            Mark.WARNING,
            "did you mean 'shell_run'?",
        ),
        (
            f'{FILES}[[rule]]\nname = "r"\ntool = "fils__read"\n',
            "rule r tool",
            Mark.WARNING,
            "did you mean 'files'?",
        ),
        (f"{LOCAL_RULE}limits = {{ cpus = 1024.0 }}\n", "rule r cpus", Mark.WARNING, "has"),
        (
            f"{LOCAL_RULE}limits = {{ memory_mib = 1000000000 }}\n",
            "rule r memory",
            Mark.WARNING,
            "this machine has",
        ),
    ],
)
def test_what_would_not_do_what_the_file_says_is_told(
    examined: Examined, text: str, what: str, mark: Mark, said: str
) -> None:
    finding = examined(text)[what]

    assert (finding.mark, said in finding.told) == (mark, True)


@pytest.mark.parametrize(
    "tool", ["shell_run", "agent_run", "files__read", "governor_status", "sh*", "later_?"]
)
def test_a_rule_for_a_tool_that_may_be_there_is_not_doubted(examined: Examined, tool: str) -> None:
    found = examined(f'{FILES}[[rule]]\nname = "r"\ntool = "{tool}"\n')

    assert "rule r tool" not in found


@pytest.mark.parametrize(
    ("isolation", "mark"), [("required", Mark.BAD), ("best_effort", Mark.WARNING)]
)
def test_limits_of_a_server_that_cannot_be_held_here_are_told_as_its_start_would(
    examined: Examined, isolation: str, mark: Mark
) -> None:
    limits = f'limits = {{ memory_mib = 64, isolation = "{isolation}" }}\n'

    finding = examined(f'[[upstream]]\nname = "a"\ncommand = ["sh"]\n{limits}')

    assert finding["upstream a limits"].mark is mark
    assert "no control groups" in finding["upstream a limits"].told

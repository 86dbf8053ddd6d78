"""What `flyball doctor` finds where several things are wrong, and of the places that it needs."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from ebpf.capability import BackendKind, Host
from memory_store.store import migrate_store
from runtime import examination, place_findings
from runtime.examination import examine
from runtime.findings import Finding, Mark
from runtime.settings import Settings

FREE_PORTS = '[listen]\nagents = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'
Examined = Callable[[str], Mapping[str, Finding]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(config=tmp_path / "flyball.toml", state=tmp_path / "state")


@pytest.fixture
def examined(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Examined:
    """Examines with a configuration, on a host that can enforce nothing."""
    host = Host(backend=BackendKind.RLIMIT, capabilities=(), is_root=False, landlock_abi=0)
    monkeypatch.setattr(examination, "probe_host", lambda: host)

    def by_name(text: str) -> Mapping[str, Finding]:
        settings.config.write_text(FREE_PORTS + text, encoding="utf-8")
        return {finding.what: finding for finding in examine(settings).findings}

    return by_name


def test_a_store_of_a_newer_version_is_a_fault_and_one_of_this_version_is_not(
    examined: Examined, settings: Settings
) -> None:
    settings.state.mkdir(mode=0o700)
    migrate_store(settings.state)

    present = examined("")
    with closing(sqlite3.connect(settings.state / "flyball.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    newer = examined("")["store"]

    assert present["schema"].told.startswith("up to date")
    assert newer.mark is Mark.BAD
    assert "start the version that wrote it" in newer.told


@pytest.mark.requirement("doctor.every-fault")
def test_one_fault_hides_no_other(
    examined: Examined, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    settings.state.mkdir()
    settings.state.chmod(0o755)
    text = """
[lissten]
[default]
limits = { wall_ms = 1 }
estimate = { wall_ms = 2 }
[[upstream]]
name = "one"
command = ["no-such-server"]
[[upstream]]
name = "two"
command = ["sh"]
env_from = ["NO_SUCH"]
[[upstream]]
name = "three"
command = 3
[[provider]]
name = "lab"
base_url = "http://lab.test"
api_key_from = "NO_SUCH"
[[tier]]
name = "low"
provider = "lab"
model = "m"
[[webhook]]
name = "ops"
url = "https://hooks.test"
secret_from = "NO_SUCH"
"""

    findings = examined(text)

    told = findings[str(settings.config)].told
    for part in (
        "did you mean 'listen'?",
        "estimate_wall_ms",
        "upstream[2].command",
        "upstream two",
        "provider lab",
        "webhook",
    ):
        assert part in told
    wrong = {finding.what for finding in findings.values() if not finding.is_ok}
    assert {"upstream one", "state", str(settings.config)} <= wrong
    assert "tier low price" in findings
    assert "upstream three" not in findings


@pytest.mark.requirement("doctor.every-fault")
def test_a_table_with_faults_hides_none_that_stands_beside_it(examined: Examined) -> None:
    tables = [
        f'[[upstream]]\nname = "u{number}"\n'
        + ("command = 3\nlimit = 4\n" if number in {1, 9, 10} else 'command = ["sh"]\n')
        for number in range(12)
    ]

    findings = examined("".join(tables))

    shown = {what for what in findings if what.startswith("upstream u")}
    assert shown == {f"upstream u{number}" for number in range(12) if number not in {1, 9, 10}}


def test_a_disk_that_is_full_soon_is_told(
    examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left(free: int) -> Finding:
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr(place_findings.shutil, "disk_usage", lambda _: usage)
        return examined("")["disk"]

    mib = 1024 * 1024
    assert [left(free * mib).mark for free in (10, 500, 50_000)] == [
        Mark.BAD,
        Mark.WARNING,
        Mark.OK,
    ]


def test_a_console_whose_name_is_another_machines_is_told(examined: Examined) -> None:
    strange = examined('[console]\nhost = "192.0.2.7"\n')["console"]

    assert strange.mark is Mark.WARNING
    assert "192.0.2.7 is another machine" in strange.told
    assert examined("[console]\nenabled = false\n")["console"].is_ok

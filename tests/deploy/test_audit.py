"""The audit of what is locked: who is believed, what is told, what it returns."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy import audit
from deploy.locked import Package

WORD = "jinja2 2.4.1: PYSEC-2019-217; mended in 2.10.1"
KNOWS: Mapping[str, Any] = {
    "dependencies": [
        {
            "name": "jinja2",
            "version": "2.4.1",
            "vulns": [{"id": "PYSEC-2019-217", "fix_versions": ["2.10.1"]}],
        },
        {"name": "anyio", "version": "4.16.0", "vulns": []},
        {"name": "odd", "skip_reason": "not found"},
    ]
}
CLEAN: Mapping[str, Any] = {"dependencies": [{"name": "a", "version": "1", "vulns": []}]}


class Asked:
    """A pip-audit that answers what it is told to, by service and by file."""

    def __init__(self, **answers: Mapping[str, Any] | None) -> None:
        self._answers = answers

    def __call__(self, file: Path, service: str, **_: object) -> Mapping[str, Any] | None:
        kind = "known" if file.name == "known.txt" else "locks"
        return self._answers.get(f"{service}_{kind}")


@pytest.mark.requirement("dependencies.audited")
def test_what_is_locked_here_is_audited_or_it_is_said_that_it_was_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = audit.main(["--json"])

    told = json.loads(capsys.readouterr().out)
    assert status == 0, told
    assert told["packages"] > 100
    assert told["audited_by"] in {None, *audit.SERVICES}
    assert told["vulnerable"] == told["licences"] == []


@pytest.mark.requirement("dependencies.audited")
def test_a_service_that_does_not_know_what_all_know_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(osv_known=None, pypi_known=CLEAN, osv_locks=CLEAN, pypi_locks=CLEAN)
    monkeypatch.setattr(audit, "_asked", asked)

    assert audit.main([]) == 0
    assert capsys.readouterr().out.startswith("NOT AUDITED")
    assert audit.main(["--strict"]) == audit.EXIT_NOT_AUDITED


def test_an_audit_that_breaks_off_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_asked", Asked(osv_known=KNOWS, osv_locks=None))

    assert audit.audit().audited_by is None


@pytest.mark.requirement("dependencies.audited")
def test_a_vulnerable_package_is_told_with_what_mends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "_asked", Asked(pypi_known=KNOWS, pypi_locks=KNOWS))

    assert audit.main([]) == audit.EXIT_VULNERABLE

    said = capsys.readouterr().out
    assert "audited by pypi" in said
    assert WORD in said


@pytest.mark.parametrize(
    ("licence", "binds"),
    [
        ("MIT", False),
        ("LGPL-3.0-only", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("MPL-2.0 AND MIT", False),
        ("GPL-3.0-or-later", True),
        ("GPL-2.0-only OR MIT", False),
        ("GNU General Public License v3 (GPLv3)", True),
        ("AGPL-3.0-only", True),
        (None, False),
    ],
)
def test_a_licence_that_would_bind_whoever_ships_it_is_told(
    monkeypatch: pytest.MonkeyPatch, licence: str | None, *, binds: bool
) -> None:
    monkeypatch.setattr(audit, "licence_of", lambda _: licence)
    package = Package(name="a", version="1", marker="", hashes=("0",), via=())

    assert bool(list(audit.binding([package]))) is binds

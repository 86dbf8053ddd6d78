"""The official conformance suite, with a real sidecar in the middle and in front of its servers."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import CRADLE_VARIABLE, cradle
from ports import a_port

from tests.conformance.driver import SCENARIOS
from tests.conformance.installed import NODE, ROOT, everything_server, suite
from tests.conformance.sidecar import everything_at, sidecar_before

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SUITE_SECONDS_MAX = 180
RUN = re.compile(r"^([✓✗]) ([\w/-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
UNSCORED = re.compile(r"^ +([✓✗]) ([\w/-]+) \(", re.MULTILINE)
# Beyond what a revision requires: what gateways are for.
HEADERS = {"http-header-validation", "http-custom-header-server-validation"}


@dataclass(frozen=True)
class Report:
    """How each scenario of a run ended."""

    passed: frozenset[str]
    failed: frozenset[str]
    unscored: frozenset[str]
    text: str


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A sidecar before the SDK's own server, which passes every scenario by itself."""
    folder = everything_server()
    with (
        everything_at(folder, port=a_port()) as upstream,
        sidecar_before(upstream, tmp_path_factory.mktemp("sidecar")) as url,
    ):
        yield url


def run_suite(*arguments: str) -> str:
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [str(NODE), str(suite()), *arguments],
        env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", CRADLE_VARIABLE: cradle()},
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS_MAX,
        check=False,
    )
    return done.stdout + done.stderr


def report_of(text: str) -> Report:
    _, _, summary = text.partition("=== SUMMARY ===")
    ran, _, rest = summary.partition("Not scored")
    unscored = frozenset(name for _, name in UNSCORED.findall(rest))
    by_mark = [(mark, name) for mark, name, _, _ in RUN.findall(ran)]
    return Report(
        passed=frozenset(name for mark, name in by_mark if mark == "✓"),
        failed=frozenset(name for mark, name in by_mark if mark == "✗"),
        unscored=unscored,
        text=text,
    )


@pytest.mark.requirement("protocol.is-conformant")
@pytest.mark.parametrize(("revision", "count"), [("2026-07-28", 37), ("2025-11-25", 30)])
def test_every_scenario_that_a_revision_requires_passes_through_the_gateway(
    gateway: str, tmp_path: Path, revision: str, count: int
) -> None:
    text = run_suite("server", "--url", gateway, "-o", str(tmp_path), "--requirements", revision)

    report = report_of(text)
    assert not report.failed - report.unscored, report.text
    assert len(report.passed - report.unscored) == count, report.text
    if revision == "2026-07-28":
        assert report.passed >= HEADERS, report.text


@pytest.mark.requirement("protocol.is-conformant")
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_the_leg_to_the_upstream_plays_every_client_scenario(tmp_path: Path, scenario: str) -> None:
    driver = shlex.join([sys.executable, str(Path(__file__).parent / "driver.py")])

    text = run_suite(
        *("client", "--command", driver, "--scenario", scenario, "-o", str(tmp_path)),
        *("--timeout", "90000"),
    )

    assert "OVERALL: PASSED" in text, text

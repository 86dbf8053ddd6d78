"""The reference is what the code says now, and says something of everything."""

import re
import tomllib
from pathlib import Path

import pytest

from docs.tools.config_page import undescribed, words_of_nothing
from docs.tools.errors_page import WORDS
from docs.tools.metrics_page import metrics
from docs.tools.reference import FOLDER, outdated
from governor.denial import DenialReason, RemedyAction
from runtime.telemetry import collect_metrics, exposition
from runtime.version import VERSION
from tool_gateway import telemetry

MAKE_IT = "run `python -m docs.tools.reference` and commit what it writes"
FAMILY = re.compile(r"^# TYPE (?P<name>(flyball|gen_ai)_\w+) ", re.MULTILINE)
SHOWN = re.compile(r"^\| `(?P<name>\w+)`", re.MULTILINE)


@pytest.mark.requirement("docs.reference-is-current")
def test_the_reference_is_as_the_code_has_it() -> None:
    stale = outdated()

    assert not stale, f"docs/reference: {stale}: {MAKE_IT}"


@pytest.mark.requirement("docs.reference-is-current")
def test_every_key_of_the_configuration_is_described() -> None:
    silent = undescribed()

    assert not silent, f"say what they mean in a comment above them: {silent}"
    assert not words_of_nothing(), f"docs/tools/words.toml: {words_of_nothing()}"


@pytest.mark.requirement("docs.reference-is-current")
def test_every_denial_and_every_remedy_is_described() -> None:
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))

    assert words["reasons"].keys() == {reason.value for reason in DenialReason}
    assert words["remedies"].keys() == {action.value for action in RemedyAction}


@pytest.mark.requirement("docs.reference-is-current")
def test_what_a_scrape_shows_is_on_the_page_of_metrics() -> None:
    collect_metrics(version=VERSION)
    telemetry.count_failure("docs")
    telemetry.count_denied(kind="tool", reason=DenialReason.OVERLOADED)
    telemetry.note_wait(backend="docs", wait_ms=1)
    shown = set(SHOWN.findall((FOLDER / "metrics.md").read_text(encoding="utf-8")))

    scraped = {found["name"] for found in FAMILY.finditer(exposition()[0].decode())}

    assert {"flyball_denials_total", "flyball_wait_milliseconds"} <= scraped
    assert scraped <= shown, f"{sorted(scraped - shown)}: {MAKE_IT}"


def test_every_metric_says_what_it_counts() -> None:
    silent = [f"{metric.made_in}: {metric.name}" for metric in metrics() if not metric.description]

    assert not silent, silent


def test_a_page_that_is_out_of_date_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "metrics.md").write_text("# Metrics\n", encoding="utf-8")
    monkeypatch.setattr("docs.tools.reference.FOLDER", tmp_path)
    monkeypatch.setattr("docs.tools.reference.MAKERS", {"metrics.md": lambda: "# Metrics, more\n"})

    assert outdated() == ["metrics.md"]

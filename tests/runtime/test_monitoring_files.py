"""The alerts and the dashboard ask for what a sidecar shows, and the alerts go off in time."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import Counter, UpDownCounter
from opentelemetry.sdk.metrics import _Gauge as Gauge
from prometheus_client.parser import text_string_to_metric_families

from runtime.model_gateway import telemetry as model_calls
from runtime.telemetry import collect_metrics, exposition
from runtime.version import VERSION
from tests.runtime.test_telemetry import LABELS
from tool_gateway import tallies

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = DEPLOY / "grafana" / "flyball.json"
# Where instruments are made; whoever makes one elsewhere adds the module.
MODULES = (*("tool_gateway.telemetry", "tool_gateway.spans", "runtime.connections"),)
OF_PROMETHEUS = {"up"}
OF_TARGETS = {"job", "instance", "process", "severity", "alertname"}
NAME = re.compile(r"\b(?:up|(?:flyball|gen_ai|mcp|process)_[a-z0-9_]+)\b(?=\s*[{\[])")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
MATCHED = re.compile(r"([a-z_][a-z0-9_]*)\s*(?:=~|!~|!=|=)\s*\"")
EXPRESSION = re.compile(r"^ +expr: (?:\|\n((?: {10,}.*\n)+)|(.*)\n)", re.MULTILINE)


@cache
def shown() -> frozenset[str]:
    """Return the names of all samples, once each instrument has measured something."""
    provider = collect_metrics(version=VERSION)
    for module in MODULES:
        importlib.import_module(module)
    mark = {"kind": "monitoring"}
    for meter in provider._meters.values():
        for instrument in meter._instrument_id_instrument.values():
            if isinstance(instrument, (Counter, UpDownCounter)):
                instrument.add(1, mark)
            elif isinstance(instrument, Gauge):
                instrument.set(1, mark)
    for one in kept_by_modules():
        if isinstance(one, tallies.Tally):
            one.add(*["monitoring"] * len(one._labels))
        elif isinstance(one, tallies.Level):
            one.set("monitoring", 1)
    for histogram in tallies.histograms():
        histogram.of(mark).record(1)
    model_calls._costs_microusd["monitoring", "monitoring"] = 1
    families = text_string_to_metric_families(exposition()[0].decode())
    return frozenset(sample.name for family in families for sample in family.samples)


def kept_by_modules() -> Iterator[object]:
    """Yield what the loaded modules have names for."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("runtime", "tool_gateway")):
            yield from list(vars(module).values())


def alert_expressions() -> Iterator[str]:
    text = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8")
    for block, line in EXPRESSION.findall(text):
        yield block or line


def panel_expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


@pytest.mark.requirement("monitoring.metrics-exist")
@pytest.mark.parametrize("expressions", [alert_expressions, panel_expressions])
def test_every_metric_that_is_asked_for_is_one_that_a_sidecar_shows(expressions: Any) -> None:
    asked = {name for expression in expressions() for name in NAME.findall(expression)}

    assert len(asked) > 10
    assert asked - shown() - OF_PROMETHEUS == set()


@pytest.mark.requirement("monitoring.metrics-exist")
@pytest.mark.parametrize("expressions", [alert_expressions, panel_expressions])
def test_every_label_that_is_asked_for_is_one_that_metrics_may_have(expressions: Any) -> None:
    asked: set[str] = set()
    for expression in expressions():
        asked |= set(MATCHED.findall(expression))
        for grouped in GROUPED.findall(expression):
            asked |= {name.strip() for name in grouped.split(",")}

    assert asked - LABELS - OF_TARGETS == set()


def test_every_query_asks_for_the_sidecars_own_job() -> None:
    """The collector hands the same figures on, which would be counted twice."""
    for expression in (*alert_expressions(), *panel_expressions()):
        for name in NAME.finditer(expression):
            assert 'job="' in expression[name.end() :].split("}", 1)[0], expression


@pytest.mark.requirement("monitoring.alerts-tested")
def test_every_alert_says_what_to_do_and_is_tested() -> None:
    text = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8")
    tests = (PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", text)

    assert len(alerts) == len(set(alerts)) > 10
    assert text.count("summary: ") == text.count("action: ") == len(alerts)
    assert {name for name in alerts if f"alertname: {name}\n" not in tests} == set()


@pytest.mark.requirement("monitoring.alerts-tested")
@pytest.mark.parametrize(
    "words",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
    ids=lambda words: words[1],
)
def test_prometheus_own_tool_accepts_the_files(words: tuple[str, ...]) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("this machine has no promtool (Debian package prometheus)")

    done = subprocess.run(
        [program, *words], cwd=PROMETHEUS, capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout + done.stderr


@pytest.mark.requirement("monitoring.metrics-exist")
def test_the_dashboard_has_one_place_for_each_panel_and_our_source_of_data() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    places = [panel["gridPos"] for panel in panels]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels if "targets" in panel} == {
        "flyball-prometheus"
    }
    assert all(place["x"] + place["w"] <= 24 for place in places)
    taken = {
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    }
    assert len(taken) == sum(place["w"] * place["h"] for place in places)

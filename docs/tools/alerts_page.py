"""The page of the alerts that are shipped, from their file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from docs.tools.markdown import code, page, table

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "alerts.yml"


def alerts_page() -> str:
    """Return the page."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    rows = [
        (code(rule["alert"]), rule["labels"]["severity"], _when(rule), _action(rule))
        for group in groups
        for rule in group["rules"]
        if "alert" in rule
    ]
    intro = (
        "`deploy/prometheus/alerts.yml` has these for Prometheus. Thresholds are where to begin "
        "from. A test holds every metric that they name against a real scrape, and plays each."
    )
    head = ("alert", "severity", "when", "what to do")
    return page("Alerts", "`deploy/prometheus/alerts.yml`", intro, table(head, rows))


def _when(rule: Mapping[str, Any]) -> str:
    expression = code(" ".join(str(rule["expr"]).split()))
    return f"{expression} for {rule['for']}" if "for" in rule else expression


def _action(rule: Mapping[str, Any]) -> str:
    return str(rule["annotations"].get("action", rule["annotations"].get("summary", "")))

"""The compose file as an engine reads it, and what its services are given."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = Path(__file__).parent / "schemas"
COMPOSE = ROOT / "docker-compose.yml"
ENFORCED = ROOT / "deploy" / "compose.enforced.yml"


@cache
def composed(path: Path = COMPOSE) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = composed()["services"]
    return found


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    return found

import json
from pathlib import Path

import pytest

from governor.ids import CallId
from runtime.configuration.load import parse_config
from runtime.errors import ConfigError
from runtime.strategies import strategies_of

NOTHING = ""
MOVING = "[strategy]\nmove_up = true\n"


def test_the_tier_rules_choose_unless_sessions_move_up() -> None:
    usual = strategies_of(parse_config(NOTHING, source="flyball.toml"))
    moving = strategies_of(parse_config(MOVING, source="flyball.toml"))

    assert usual.router is None
    assert moving.router is moving.ascending is not None


def test_an_outcome_of_nobodys_call_is_taken_quietly() -> None:
    for text in (NOTHING, MOVING):
        strategies = strategies_of(parse_config(text, source="flyball.toml"))

        strategies.scored(CallId("call_of_nobody"), 1.0, ends_task=True, counts=1.0)


def test_a_file_of_examples_that_is_broken_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "worked.jsonl"
    file.write_text("nothing", encoding="utf-8")
    text = f"[strategy]\nexamples = {{ file = {json.dumps(str(file))} }}\n"

    with pytest.raises(ConfigError, match="example 1"):
        strategies_of(parse_config(text, source="flyball.toml"))

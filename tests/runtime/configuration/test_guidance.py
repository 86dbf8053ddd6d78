"""What the file says about loops, and about what agents are told."""

import pytest

from governor.ids import PrincipalId, TenantId, ToolName
from governor.loops import BREAKER, REMINDERS, LoopRule
from governor.policy import ToolRule
from governor.tracker import Tracker
from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.translate import policy_of
from runtime.errors import ConfigError


def read(text: str) -> Config:
    return parse_config(text, source="flyball.toml")


def rule_for(config: Config, tool: str) -> ToolRule:
    return policy_of(config).rule_for(
        tool=ToolName(tool), tenant=TenantId("acme"), agent=PrincipalId("ada")
    )


@pytest.mark.parametrize(
    ("loops", "rule"),
    [
        ('"off"', None),
        ('"remind"', REMINDERS),
        ('"break"', BREAKER),
        ("{}", BREAKER),
        (
            (
                "{ remind = 10, serve = 0, deny = 20, pause = 0, stale = 0, stale_deny = 0, "
                "repeatable = true, within_s = 60 }"
            ),
            LoopRule(
                remind=10,
                serve=0,
                deny=20,
                pause=0,
                stale=0,
                stale_deny=0,
                is_repeatable=True,
                within_ms=60_000,
            ),
        ),
    ],
)
def test_loops_are_broken_by_a_word_or_by_counts(loops: str, rule: LoopRule | None) -> None:
    config = read(f'[[rule]]\nname = "a"\ntool = "poll__*"\nloops = {loops}')

    assert rule_for(config, "poll__status").loops == rule
    assert rule_for(config, "files__read").loops == REMINDERS


def test_a_ladder_that_cannot_be_climbed_is_refused_by_its_rule() -> None:
    config = read('[[rule]]\nname = "a"\nloops = { remind = 5, serve = 4 }')

    with pytest.raises(ConfigError, match=r"rule a: loops\.serve: 4 is not above remind = 5"):
        policy_of(config)


def test_a_rule_says_what_the_model_is_told_and_what_is_cheaper() -> None:
    config = read("""
[guidance]
admin_contact = "ops@acme.test"
chat_tracker = "when_low"

[[rule]]
name = "search"
tool = "web__search"
tracker = "line"
cheaper = "docs__search"
""")

    assert config.guidance.admin_contact == "ops@acme.test"
    assert config.guidance.chat_tracker is Tracker.WHEN_LOW
    rule = rule_for(config, "web__search")
    assert (rule.tracker, rule.cheaper) == (Tracker.LINE, "docs__search")
    assert rule_for(config, "docs__search").tracker is Tracker.OFF

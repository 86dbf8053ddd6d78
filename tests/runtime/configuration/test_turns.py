"""What turn control gets from the file."""

import pytest

from governor.ids import PrincipalId, TaskClass, TenantId
from governor.turn_policy import TurnMode, TurnTerms
from runtime.configuration.load import parse_config
from runtime.configuration.translate import turn_policy_of
from runtime.errors import ConfigError

TENANT = TenantId("acme")
FILE = """
[turns]
mode = "percentile"
percent = 90
history_min = 5

[[turn_rule]]
agent = "coder-*"
mode = "dynamic"
turns = 30
solve_price = 5.0
remind_at = [3]

[[task_class]]
name = "coding"
agent = "coder-*"
"""


def test_nobody_is_limited_unless_the_file_says_so() -> None:
    assert turn_policy_of(parse_config("", source="f")).fallback == TurnTerms()


def test_the_first_rule_replaces_the_house_s_terms_and_agents_have_a_class() -> None:
    policy = turn_policy_of(parse_config(FILE, source="f"))
    coder = PrincipalId("coder-1")

    own = policy.class_of(coder, asked=None)
    terms = policy.terms_for(tenant=TENANT, agent=coder, task_class=own)

    assert own == "coding"
    assert terms == TurnTerms(mode=TurnMode.DYNAMIC, turns=30, solve_price=5.0, remind_at=(3,))
    assert policy.terms_for(
        tenant=TENANT, agent=PrincipalId("x"), task_class=TaskClass("default")
    ) == TurnTerms(mode=TurnMode.PERCENTILE, percent=90, history_min=5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[turns]\nmode = "sometimes"', "turns.mode"),
        ("[turns]\nturns = 0", "turns.turns"),
        ("[turns]\npercent = 101", "turns.percent"),
        ("[turns]\nremind_at = [-1]", "turns.remind_at"),
        ("[turns]\nextention = 3", "extension"),
        ('[[turn_rule]]\nagent = "a"\nsolve_price = 0', "turn_rule[0].solve_price"),
        ('[[task_class]]\nname = "x"', "task_class[0].agent"),
        ("[energy]\nwatts_per_core = 0", "energy.watts_per_core"),
        ("[metrics]\ncpu_watts = 10", "metrics.cpu_watts is energy.watts_per_core now"),
    ],
)
def test_a_value_that_cannot_be_is_named(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(text, source="f")

    assert told in str(refused.value)

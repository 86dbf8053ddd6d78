"""What a unit costs and what is held of it, from the file."""

import pytest

from governor.ids import PrincipalId, TenantId, ToolName
from governor.unified_cost import MONEY_ALONE, UnifiedPrices
from runtime.configuration.load import parse_config
from runtime.configuration.translate import policy_of
from runtime.errors import ConfigError


def test_prices_beside_the_money_and_the_draw_of_a_core_come_from_the_file() -> None:
    told = """
[unified_cost]
tool_call_microusd = 100
cpu_second_microusd = 20

[energy]
watts_per_core = 7.0301
"""
    policy = policy_of(parse_config(told, source="test"))
    plain = policy_of(parse_config("", source="test"))

    assert policy.unified == UnifiedPrices(tool_call_microusd=100, cpu_second_microusd=20)
    assert policy.milliwatts_per_core == 7_031  # rounded up
    assert (plain.unified, plain.milliwatts_per_core) == (MONEY_ALONE, None)


def test_an_estimate_can_be_given_of_each_unit_of_the_machine_and_of_the_context() -> None:
    machine = ("memory_mib_s", "io_bytes", "egress_bytes", "energy_mj", "context_tokens")
    units = (*machine, "probe_1", "probe_2", "probe_3", "probe_4")
    text = ", ".join(f"{unit} = {number}" for number, unit in enumerate(units))
    policy = policy_of(parse_config(f"[default]\nestimate = {{ {text} }}", source="test"))

    rule = policy.rule_for(tool=ToolName("any"), tenant=TenantId("acme"), agent=PrincipalId("ada"))

    assert rule.estimates.as_dict() == {unit: number for number, unit in enumerate(units)}


@pytest.mark.parametrize(
    "text", ["[energy]\nwatts_per_core = 0", "[unified_cost]\ntool_call_microusd = -1"]
)
def test_what_cannot_be_a_price_or_a_draw_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"watts_per_core|tool_call_microusd"):
        parse_config(text, source="test")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("limits = { egress_bytes = 900 }", 900),
        ("limits = { egress_bytes = 0 }", 0),
        # What is held of a budget bounds the call where nothing else does.
        ("estimate = { egress_bytes = 700 }", 700),
        ("limits = { egress_bytes = 900 }\nestimate = { egress_bytes = 700 }", 900),
        ("", None),
    ],
)
def test_what_a_call_may_send_is_its_limit_else_what_is_held(
    said: str, expected: int | None
) -> None:
    policy = policy_of(parse_config(f'[[rule]]\nname = "send"\n{said}\n', source="test"))

    rule = policy.rule_for(tool=ToolName("any"), tenant=TenantId("acme"), agent=PrincipalId("ada"))

    assert rule.limits.egress_bytes == expected

"""What the file says about flow rules."""

import pytest

from governor.flow.labels import Label
from governor.flow.policy import AFTER_UNTRUSTED, FlowPolicy, Then, Unless
from runtime.configuration.flow import flow_approval_of, flow_policy_of
from runtime.configuration.load import parse_config
from runtime.errors import ConfigError


def policy_of(text: str) -> FlowPolicy | None:
    return flow_policy_of(parse_config(text, source="flyball.toml").flow)


def test_flow_rules_are_off_until_they_are_switched_on() -> None:
    assert policy_of("") is None
    assert policy_of("[flow]\nenabled = true") == FlowPolicy(rules=(AFTER_UNTRUSTED,))


def test_the_one_usual_rule_can_deny() -> None:
    policy = policy_of('[flow]\nenabled = true\nthen = "deny"')

    assert policy is not None
    assert policy.rules[0].then is Then.DENY


def test_rules_tasks_and_labels_of_ones_own_are_read() -> None:
    policy = policy_of(
        """
        [flow]
        enabled = true

        [[flow.rule]]
        name = "trifecta"
        after = ["reads_private", "sees_untrusted"]
        on = ["can_send_out"]
        unless = "never"
        then = "deny"

        [[flow.task]]
        task_class = "booking"
        tools = ["hotels__*"]

        [[flow.label]]
        tool = "wiki__*"
        labels = ["sees_untrusted"]
        """
    )

    assert policy is not None
    (rule,) = policy.rules
    assert rule.after == {Label.READS_PRIVATE, Label.SEES_UNTRUSTED}
    assert (rule.on, rule.unless, rule.then) == ({Label.CAN_SEND_OUT}, Unless.NEVER, Then.DENY)
    assert policy.tasks[0].tools == ("hotels__*",)
    assert policy.labelled[0].labels == {Label.SEES_UNTRUSTED}


@pytest.mark.parametrize(
    "text",
    [
        '[[flow.rule]]\nname = "x"\nafter = ["changes"]',
        '[[flow.rule]]\nname = "x"\non = []',
        '[[flow.label]]\ntool = "x"\nlabels = ["dangerous"]',
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="flow"):
        parse_config(text, source="flyball.toml")


def test_a_wait_that_no_answer_can_end_is_refused() -> None:
    table = parse_config("[flow]\napproval_wait_s = 60\napproval_ttl_s = 30", source="t").flow

    with pytest.raises(ConfigError, match=r"flow\.approval_wait_s"):
        flow_approval_of(table)

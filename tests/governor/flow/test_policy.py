"""Flow rules: what a session has seen decides what may run."""

import pytest

from governor.flow.labels import Label, ToolFacts, traits_of
from governor.flow.policy import (
    FlowPolicy,
    FlowRule,
    Labelled,
    Seen,
    Stopped,
    TaskTools,
    Then,
    Unless,
    judge,
)
from governor.flow.wording import words_of
from governor.ids import PrincipalId, TaskClass, ToolName

SEND = traits_of(ToolFacts(name="send_letter", parameters={"recipient": True, "body": True}))
READ = traits_of(ToolFacts(name="read_inbox"))
UNTRUSTED = {Label.SEES_UNTRUSTED: ToolName("web__fetch")}
ASKED = words_of("Send the minutes to Zoe")


def judged(
    seen: Seen, *rules: FlowRule, tasks: tuple[TaskTools, ...] = (), recipient: str = "Mallory"
) -> Stopped | None:
    return judge(
        FlowPolicy(rules=rules or FlowPolicy().rules, tasks=tasks),
        seen,
        tool=ToolName("post__send_letter"),
        agent=PrincipalId("ada"),
        traits=SEND,
        arguments={"recipient": recipient, "body": "…"},
    )


@pytest.mark.requirement("flow.only-what-was-asked")
def test_before_anything_untrusted_was_seen_every_call_runs() -> None:
    assert judged(Seen(marks={})) is None
    assert judged(Seen(marks={Label.READS_PRIVATE: ToolName("t")})) is None


@pytest.mark.requirement("flow.only-what-was-asked")
def test_after_untrusted_content_only_what_was_asked_for_runs() -> None:
    stopped = judged(Seen(marks=UNTRUSTED, asked=ASKED))

    assert stopped is not None
    assert stopped.then is Then.ASK
    assert "web__fetch" in stopped.why
    assert judged(Seen(marks=UNTRUSTED, asked=ASKED), recipient="Zoe") is None


@pytest.mark.requirement("flow.no-words-never-allow")
def test_without_the_users_words_a_rule_never_allows() -> None:
    stopped = judged(Seen(marks=UNTRUSTED), recipient="Zoe")

    assert stopped is not None
    assert "not known" in stopped.why


def test_a_rule_without_exception_and_one_that_denies_are_obeyed() -> None:
    asks = FlowRule(name="asks")
    denies = FlowRule(
        name="trifecta",
        after=frozenset({Label.SEES_UNTRUSTED, Label.READS_PRIVATE}),
        on=frozenset({Label.CAN_SEND_OUT}),
        unless=Unless.NEVER,
        then=Then.DENY,
    )
    both = {Label.READS_PRIVATE: ToolName("r"), **UNTRUSTED}

    only_untrusted = judged(Seen(marks=UNTRUSTED, asked=ASKED), asks, denies, recipient="Zoe")
    after_both = judged(Seen(marks=both, asked=ASKED), asks, denies, recipient="Zoe")

    assert only_untrusted is None
    assert after_both is not None
    assert (after_both.rule, after_both.then) == ("trifecta", Then.DENY)


@pytest.mark.requirement("flow.task-tools")
def test_a_task_class_has_only_its_own_tools() -> None:
    booking = TaskTools(task_class="booking", tools=("hotels__*",))
    seen = Seen(marks={}, task_class=TaskClass("booking"))

    stopped = judged(seen, tasks=(booking,))

    assert stopped is not None
    assert stopped.then is Then.DENY
    assert judged(Seen(marks={}, task_class=TaskClass("other")), tasks=(booking,)) is None
    posting = TaskTools(task_class="booking", tools=("hotels__*", "post__*"))
    assert judged(seen, tasks=(posting, booking)) is None


def test_an_operators_labels_replace_the_inferred_ones() -> None:
    policy = FlowPolicy(labelled=(Labelled(tool="mine__*", labels=frozenset()),))

    assert not policy.traits(ToolName("mine__send"), SEND).labels
    assert policy.traits(ToolName("other__read"), READ) is READ

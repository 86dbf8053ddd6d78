"""Access rules take away, each for itself: no rule gives back what another keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.access import Access, AccessRule, Choice, Offer
from governor.ids import PrincipalId, TenantId

ACME, ADA, BOB = TenantId("acme"), PrincipalId("ada"), PrincipalId("bob")
NAMES = st.sampled_from(["git__log", "git__push", "time__now", "*", "git__*", "[", "x"])
CHOICES = st.builds(
    Choice,
    allow=st.none() | st.lists(NAMES, max_size=3).map(tuple),
    deny=st.lists(NAMES, max_size=2).map(tuple),
)
RULES = st.builds(
    AccessRule,
    name=st.just("r"),
    agent=st.sampled_from(["*", "ada", "b*"]),
    tools=CHOICES,
    is_read_only=st.booleans(),
)


def refusing(access: Access, name: str, agent: PrincipalId = ADA, **more: bool) -> str | None:
    rule = access.refusing(Offer.TOOL, name, tenant=ACME, agent=agent, **more)
    return None if rule is None else rule.name


@pytest.mark.requirement("access.keeps-from-whom-it-says")
def test_what_is_not_in_the_list_or_is_denied_is_kept_from_those_it_covers() -> None:
    rule = AccessRule(
        name="interns", agent="a*", tools=Choice(allow=("git__*",), deny=("*__push",))
    )
    access = Access(rules=(rule,))

    assert refusing(access, "git__log") is None
    assert refusing(access, "git__push") == "interns"
    assert refusing(access, "time__now") == "interns"
    assert refusing(access, "time__now", BOB) is None


def test_each_kind_of_offer_has_a_choice_of_its_own() -> None:
    access = Access(rules=(AccessRule(name="r", resources=Choice(deny=("docs",))),))

    refused = {
        offer: access.refusing(offer, "docs", tenant=ACME, agent=ADA) is not None for offer in Offer
    }
    assert refused == {Offer.TOOL: False, Offer.RESOURCE: True, Offer.PROMPT: False}


def test_of_the_houses_own_tools_only_what_is_denied_is_kept() -> None:
    access = Access(
        rules=(AccessRule(name="r", tools=Choice(allow=("git__*",), deny=("governor_spawn",))),)
    )

    assert refusing(access, "governor_status", is_own=True) is None
    assert refusing(access, "governor_spawn", is_own=True) == "r"


@given(rules=st.lists(RULES, max_size=4), one_more=RULES, name=NAMES)
@pytest.mark.requirement("access.keeps-from-whom-it-says")
def test_one_more_rule_never_gives_anything(
    rules: list[AccessRule], one_more: AccessRule, name: str
) -> None:
    before, after = Access(rules=tuple(rules)), Access(rules=(one_more, *rules))

    if refusing(before, name) is not None:
        assert refusing(after, name) is not None
    if before.read_only_by(tenant=ACME, agent=ADA) is not None:
        assert after.read_only_by(tenant=ACME, agent=ADA) is not None

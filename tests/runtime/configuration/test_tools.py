"""The table about lists of tools."""

import pytest

from governor.ids import PrincipalId, TenantId
from runtime.configuration.load import parse_config
from runtime.configuration.tools import list_terms_of
from runtime.errors import ConfigError

ACME = TenantId("acme")


def test_without_a_word_lists_are_whole() -> None:
    terms = list_terms_of(parse_config("", source="nothing").tools)

    assert terms.tokens_for(ACME, PrincipalId("ada")) is None


def test_the_first_rule_that_covers_a_caller_governs() -> None:
    text = """
    [tools]
    list_tokens_max = 8000
    keep = ["time__*"]

    [[tools.list_rule]]
    agent = "big-*"

    [[tools.list_rule]]
    tenant = "acme"
    agent = "b*"
    list_tokens_max = 500
    """

    terms = list_terms_of(parse_config(text, source="a file").tools)

    assert terms.tokens_for(ACME, PrincipalId("big-one")) is None
    assert terms.tokens_for(ACME, PrincipalId("bob")) == 500
    assert terms.tokens_for(TenantId("other"), PrincipalId("bob")) == 8000
    assert terms.keeps("time__now")
    assert not terms.keeps("memory_read")


@pytest.mark.parametrize(
    "text",
    [
        "[tools]\nlist_tokens_max = 0",
        "[tools]\nlist_tokens_max = 299",
        "[tools]\nlist_token_max = 800",
        "[[tools.list_rule]]\nlist_tokens_max = -1",
        '[tools]\nkeep = [""]',
    ],
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="tools"):
        parse_config(text, source="a file")

"""What the file says of the content of calls and of who may have what."""

import pytest

from governor.access import Offer
from governor.content import USUAL, ContentTerms, OutputSchema
from governor.ids import PrincipalId, TenantId, ToolName
from runtime.configuration.content import detectors_of
from runtime.configuration.load import parse_config
from runtime.configuration.translate import policy_of
from runtime.errors import ConfigError

ACME, ADA = TenantId("acme"), PrincipalId("ada")


def content_of(text: str, tool: str = "wiki__read") -> ContentTerms:
    policy = policy_of(parse_config(text, source="test"))
    return policy.rule_for(tool=ToolName(tool), tenant=ACME, agent=ADA).content


def test_what_tools_say_goes_for_each_rule_that_does_not() -> None:
    text = """
        [tools]
        arguments_bytes_max = 5000
        output_schema = "report"
        redact_results = ["jwts"]
        [[rule]]
        name = "wiki"
        tool = "wiki__*"
        arguments_bytes_max = 300
        redact_results = []
    """

    wiki, other = content_of(text), content_of(text, "git__log")

    assert (wiki.arguments_bytes_max, other.arguments_bytes_max) == (300, 5000)
    assert (wiki.redact, other.redact) == ((), ("jwts",))
    assert wiki.output_schema is other.output_schema is OutputSchema.REPORT
    assert content_of("") == USUAL


def test_a_detector_of_ones_own_is_found_by_its_name() -> None:
    config = parse_config(
        """
        [[redaction]]
        name = "staff"
        pattern = "EMP-[0-9]{6}"
        [default]
        redact_results = ["staff", "cloud_keys"]
        """,
        source="test",
    )

    assert config.default.redact_results == ("staff", "cloud_keys")
    assert detectors_of(config.redaction)["staff"].pattern.search("EMP-123456")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[default]\nredact_results = ["staff"]', "no [[redaction]] is called 'staff'"),
        ('[[redaction]]\nname = "x"\npattern = "("', "no regular expression of RE2"),
        ('[[redaction]]\nname = "x"\npattern = "a*"', "matches the empty text"),
        ('[[redaction]]\nname = "jwts"\npattern = "a"', "belongs to a built-in detector"),
        ('[default]\noutput_schema = "strict"', "output_schema"),
        ("[default]\nresult_bytes_max = 1", "result_bytes_max"),
    ],
)
def test_a_slip_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="test")

    assert says in str(caught.value)


def test_access_tables_are_rules_that_all_hold() -> None:
    policy = policy_of(
        parse_config(
            """
            [[access]]
            name = "interns"
            agent = "a*"
            tools = ["git__*"]
            deny_tools = ["*__push"]
            deny_resources = ["secrets"]
            prompts = []
            [[access]]
            name = "everybody"
            read_only = true
            """,
            source="test",
        )
    )

    def refusing(offer: Offer, name: str, agent: str = "ada") -> str | None:
        rule = policy.access.refusing(offer, name, tenant=ACME, agent=PrincipalId(agent))
        return None if rule is None else rule.name

    assert refusing(Offer.TOOL, "git__log") is None
    assert refusing(Offer.TOOL, "git__push") == refusing(Offer.TOOL, "time__now") == "interns"
    assert refusing(Offer.RESOURCE, "docs") is None
    assert refusing(Offer.RESOURCE, "secrets") == refusing(Offer.PROMPT, "x") == "interns"
    assert refusing(Offer.PROMPT, "x", agent="bob") is None
    demanding = policy.access.read_only_by(tenant=ACME, agent=PrincipalId("bob"))
    assert demanding is not None
    assert demanding.name == "everybody"

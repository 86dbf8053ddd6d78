"""What `[oauth]` says, and what it may not say."""

import pytest

from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.oauth import resource_terms_of
from runtime.errors import ConfigError

RESOURCE = 'resource = "https://flyball.example.org/mcp"'
SERVER = '[[oauth.server]]\nissuer = "https://login.example.org"'


def read(*lines: str) -> Config:
    return parse_config("\n".join(lines), source="flyball.toml")


def test_tokens_are_for_the_resource_unless_another_audience_is_named() -> None:
    plain = resource_terms_of(read("[oauth]", RESOURCE, SERVER).oauth)
    other = resource_terms_of(read("[oauth]", RESOURCE, SERVER, 'audience = ["api://x"]').oauth)

    assert plain is not None
    assert plain.servers[0].audiences == {"https://flyball.example.org/mcp"}
    assert (plain.servers[0].tenant, plain.servers[0].makes_agents) == ("default", False)
    assert other is not None
    assert other.servers[0].audiences == {"api://x"}


def test_without_a_server_only_our_own_tokens_are_taken() -> None:
    assert resource_terms_of(read().oauth) is None


def test_what_a_server_says_is_elsewhere_is_checked_strictly() -> None:
    terms = resource_terms_of(read("[oauth]", RESOURCE, SERVER, "allow_private = true").oauth)

    assert terms is not None
    assert (terms.servers[0].reach.is_named, terms.servers[0].learned.is_named) == (True, False)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("[oauth]", SERVER), "resource: is required"),
        (("[oauth]", RESOURCE), "name an authorization server"),
        (("[oauth]", 'scopes = ["x"]'), "name an authorization server"),
        (("[oauth]", RESOURCE, SERVER, 'algorithms = ["HS256"]'), "'HS256' is not verified"),
        (("[oauth]", RESOURCE, SERVER, 'algorithms = ["none"]'), "'none' is not verified"),
        (("[oauth]", RESOURCE, SERVER, "algorithms = []"), "algorithms"),
        (("[oauth]", RESOURCE, SERVER, SERVER), "an issuer appears twice"),
        (
            ("[oauth]", RESOURCE, SERVER, SERVER.replace("login", "other")),
            "give each its own",
        ),
        (
            (
                *("[oauth]", RESOURCE, SERVER, 'agent_prefix = "a-"'),
                *(SERVER.replace("login", "other"), 'agent_prefix = "a-b-"'),
            ),
            "'a-': another server's begins with it",
        ),
        (("[oauth]", RESOURCE, SERVER.replace("https", "http")), "use https://"),
        (("[oauth]", 'resource = "https://u@flyball.example.org/"'), "without a user"),
        (("[oauth]", RESOURCE, 'scopes = ["two words"]'), "scopes"),
        (("[auth]", 'mode = "none"', "[oauth]", RESOURCE, SERVER), "nobody shows a token"),
    ],
)
def test_what_cannot_be_meant_is_refused(lines: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(*lines)

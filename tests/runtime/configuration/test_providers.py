"""How model providers are treated, as the file says it."""

import re

import pytest

from governor.breaker import BreakerTerms
from governor.providing.affinity import PromptCache
from governor.providing.key_ring import KeyTerms
from governor.retrying import RetryTerms
from runtime.configuration.care import breakers_of
from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.models import Provider
from runtime.configuration.provider_care import cares_of
from runtime.errors import ConfigError

LAB = '[[provider]]\nname = "lab"\nbase_url = "https://lab.test/v1"\n'
TIERS = """
[[tier]]
name = "low"
provider = "lab"
model = "small-1"
fallback = ["high"]
first_token_ms = 900

[[tier]]
name = "high"
provider = "lab"
model = "big-1"
"""


def read(text: str) -> Config:
    return parse_config(text, source="flyball.toml")


def lab(more: str = "") -> Provider:
    (provider,) = read(LAB + more).provider
    return provider


def test_a_provider_is_treated_with_care_unless_told_otherwise() -> None:
    care = lab().care

    assert care.retry == RetryTerms(retries=2)
    assert not care.is_repeatable
    assert care.keys == (KeyTerms(name=""),)
    assert breakers_of([lab()]) == {"lab": BreakerTerms()}
    assert breakers_of([lab('breaker = "off"')]) == {}


def test_each_key_of_a_pool_has_the_limits_that_are_stated() -> None:
    care = lab(
        'api_keys_from = ["A", "B"]\nkey_requests_per_minute = 5\nkey_tokens_per_minute = 900\n'
        "retries = 0\nrepeat_when_unsure = true"
    ).care

    assert care.keys == tuple(
        KeyTerms(name=name, requests_per_minute=5, tokens_per_minute=900) for name in ("A", "B")
    )
    assert (care.retry.retries, care.is_repeatable) == (0, True)
    assert cares_of([lab('api_key_from = "A"')])["lab"].keys == (KeyTerms(name="A"),)


def test_the_limits_of_a_key_are_divided_between_processes() -> None:
    provider = lab('api_key_from = "A"\nkey_requests_per_minute = 7\nkey_tokens_per_minute = 1')

    (key,) = cares_of([provider], between=2)["lab"].keys

    assert (key.requests_per_minute, key.tokens_per_minute) == (3, 1)


def test_a_kind_says_which_wires_are_spoken_unless_the_file_does() -> None:
    spoken = {kind: lab(f'kind = "{kind}"').spoken for kind in ("openai", "anthropic", "local")}

    assert spoken["openai"] == ("openai_chat", "openai_responses", "openai_embeddings")
    assert spoken["anthropic"] == ("anthropic_messages",)
    assert spoken["local"] == ("openai_chat", "openai_embeddings")
    assert lab('wires = ["anthropic_messages"]').spoken == ("anthropic_messages",)


def test_a_local_server_is_sent_both_bounds_of_the_output_unless_the_file_says_which() -> None:
    both = ("max_completion_tokens", "max_tokens")

    assert lab('kind = "openai"').output_caps == ()
    assert lab('kind = "local"').output_caps == lab('output_cap = "both"').output_caps == both
    assert lab('kind = "local"\noutput_cap = "max_tokens"').output_caps == ("max_tokens",)


def test_only_anthropic_keeps_no_prompt_unasked() -> None:
    assert lab("prompt_cache_s = 60").care.cache == PromptCache(life_ms=60_000)
    assert not lab('kind = "anthropic"').care.cache.is_automatic


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            LAB + 'api_key_from = "A"\napi_keys_from = ["B"]',
            "api_key_from and api_keys_from: give one",
        ),
        (LAB + 'api_keys_from = ["A", "A"]', "A appears twice"),
        (LAB + "key_tokens_per_minute = 0", "key_tokens_per_minute"),
        (LAB + "key_requests_per_minute = -3", "key_requests_per_minute"),
        (LAB + "retries = 11", "retries"),
        (LAB + 'kind = "gemini"', "kind"),
        (LAB + "wires = []", "wires"),
        (LAB + 'wires = ["smoke"]', "wires"),
        (LAB + "breaker = { open_s = 200 }", "above open_s_max"),
        (LAB + TIERS.replace('["high"]', '["hihg"]'), "no [[tier]] is called 'hihg'"),
        (LAB + TIERS.replace('["high"]', '["low"]'), "'low' would be asked twice"),
        (LAB + TIERS.replace('["high"]', '["high", "high"]'), "'high' would be asked twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        read(text)

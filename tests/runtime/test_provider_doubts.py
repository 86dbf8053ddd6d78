"""What `flyball doctor` says of model providers."""

import pytest

from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.translate import providers_of
from runtime.doubts import Doubt
from runtime.provider_doubts import doubts_about_providers, told_of

TIERS = """
[[tier]]
name = "low"
provider = "lab"
model = "small-1"
fallback = ["other"]

[[tier]]
name = "other"
provider = "rival"
model = "big-1"
"""


def read(base_url: str, *more: str, rival: str = 'kind = "openai"') -> Config:
    lab = f'[[provider]]\nname = "lab"\nbase_url = "{base_url}"\n' + "\n".join(more)
    other = f'\n[[provider]]\nname = "rival"\nbase_url = "https://rival.test"\n{rival}\n'
    return parse_config(lab + other + TIERS, source="flyball.toml")


def doubts(config: Config) -> list[Doubt]:
    return list(doubts_about_providers(config, providers_of(config)))


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_A", "sk-secret-0123456789")
    monkeypatch.setenv("KEY_B", "sk-secret-0123456789")
    monkeypatch.setenv("KEY_C", "sk-another-012345678")


def test_how_a_provider_is_treated_is_told_without_its_keys() -> None:
    config = read(
        "https://user:pass@lab.test/v1", 'api_keys_from = ["KEY_A", "KEY_C"]', "first_token_ms = 9"
    )

    told = told_of(config.provider[0])

    assert told == (
        "openai at https://lab.test/v1; speaks openai_chat, openai_responses, openai_embeddings; "
        "keys from KEY_A, KEY_C; at most 2 retries; 120000 ms in all, 10000 ms to connect, "
        "9 ms to the first token; left alone if 50 % of 10 or more calls fail"
    )


def test_a_cache_whose_writes_cost_more_than_is_charged_is_doubted() -> None:
    dear = 'input_usd_per_mtok = "3"\noutput_usd_per_mtok = "15"\n'
    stated = dear + 'cache_write_usd_per_mtok = "3.75"\n'

    def told(kind: str, price: str) -> list[Doubt]:
        rival = f'kind = "{kind}"'
        return doubts(
            parse_config(
                f'[[provider]]\nname = "rival"\nbase_url = "https://rival.test"\n{rival}\n'
                f'[[tier]]\nname = "big"\nprovider = "rival"\nmodel = "m"\n{price}',
                source="flyball.toml",
            )
        )

    [doubt] = told("anthropic", dear)
    assert doubt.what == "tier big cache_write_usd_per_mtok"
    assert 'cache_write_usd_per_mtok = "3.75"' in doubt.told
    assert not doubt.is_bad
    assert told("anthropic", stated) == told("anthropic", "") == told("openai", dear) == []


def test_what_is_sound_is_not_doubted() -> None:
    assert doubts(read("https://lab.test/v1", 'api_keys_from = ["KEY_A", "KEY_C"]')) == []
    assert doubts(read("http://127.0.0.1:8080/v1", 'api_key_from = "KEY_A"')) == []
    assert doubts(read("http://lab.test/v1")) == []


def test_one_key_under_two_names_is_doubted() -> None:
    (doubt,) = doubts(read("https://lab.test/v1", 'api_keys_from = ["KEY_A", "KEY_B"]'))

    assert doubt.what == "provider lab keys"
    assert "hold the same key" in doubt.told
    assert "0123456789" not in doubt.told


def test_a_key_that_goes_over_the_net_in_the_clear_is_doubted() -> None:
    (doubt,) = doubts(read("http://lab.test/v1", 'api_key_from = "KEY_A"'))

    assert doubt.what == "provider lab base_url"
    assert "without encryption" in doubt.told


def test_a_fallback_that_speaks_another_language_is_doubted() -> None:
    assert doubts(read("https://lab.test/v1", rival='kind = "anthropic"')) == []  # translated
    (doubt,) = doubts(
        read(
            "https://lab.test/v1",
            'wires = ["openai_embeddings"]',
            rival='kind = "anthropic"',
        )
    )

    assert doubt.what == "tier low fallback other"
    assert doubt.told.startswith("other is never asked in its place")

"""What the file says of how tokens are counted and priced, and which answers are kept."""

from pathlib import Path

import pytest

from runtime.configuration.load import load_config, parse_config
from runtime.configuration.translate import tiers_of
from runtime.errors import ConfigError
from runtime.model_gateway.kept_answers import Keeping, KeptFor, KeptPolicy

TIER = """
[[provider]]
name = "lab"
base_url = "http://127.0.0.1/v1"
[[tier]]
name = "low"
provider = "lab"
model = "small"
input_usd_per_mtok = "3"
output_usd_per_mtok = "15"
"""


def place(folder: Path, more: str) -> Path:
    path = folder / "flyball.toml"
    path.write_text(TIER + more)
    return path


def test_a_tier_says_what_is_known_of_its_tokens(tmp_path: Path) -> None:
    more = 'cache_write_usd_per_mtok = "3.75"\ncache_write_1h_usd_per_mtok = "6"\n'
    more += "hidden_reasoning = false\nimage_tokens_max = 256\n"

    (tier,) = tiers_of(load_config(place(tmp_path, more)))

    assert tier.price is not None
    assert tier.price.cache_write_microusd_per_mtok == 3_750_000
    assert tier.price.cache_write_1h_microusd_per_mtok == 6_000_000
    assert (tier.hidden_reasoning, tier.image_tokens_max, tier.tokenizer) == (False, 256, None)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('cache_write_usd_per_mtok = "-1"', "cache_write_usd_per_mtok"),
        ('cache_write_1h_usd_per_mtok = "much"', "cache_write_1h_usd_per_mtok"),
        ("image_tokens_max = 0", "image_tokens_max"),
        ('hidden_reasoning = "no"', "hidden_reasoning"),
        ('tokenizer = "missing.json"', r"tier low: tokenizer: .*/missing.json: no such file"),
        ('tokenizer = "flyball.toml"', "name begins with o200k, cl100k"),
        ('[kept_answers]\nkeep = "sometimes"', "kept_answers.keep"),
        ("[kept_answers]\nttl_s = 0", "kept_answers.ttl_s"),
        ('[kept_answers]\nkept_for = "everybody"', "kept_answers.kept_for"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_where_it_stands(
    tmp_path: Path, more: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        tiers_of(load_config(place(tmp_path, more)))


def test_no_answers_are_kept_unless_the_file_says_which() -> None:
    assert parse_config("", source="nothing").kept_answers.policy() == KeptPolicy()


def test_the_file_says_which_answers_are_kept(tmp_path: Path) -> None:
    table = '[kept_answers]\nkeep = "always"\nkept_for = "tenant"\nttl_s = 60\n'
    table += "entries_max = 5\nmemory_mib_max = 2\nanswer_kib_max = 3\n"

    policy = load_config(place(tmp_path, table)).kept_answers.policy()

    assert policy == KeptPolicy(
        keeping=Keeping.ALWAYS,
        kept_for=KeptFor.TENANT,
        ttl_ms=60_000,
        entries_max=5,
        bytes_max=2 * 1024 * 1024,
        answer_bytes_max=3 * 1024,
    )

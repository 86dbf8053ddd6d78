from pathlib import Path

import pytest

from governor.pricing import ModelPrice
from runtime.configuration.load import load_config
from runtime.configuration.translate import prices_of, tiers_of
from runtime.errors import ConfigError

CONFIG = """
[pricing]
file = "prices.toml"
{ceiling}
[[provider]]
name = "openai"
base_url = "http://127.0.0.1/v1"
[[tier]]
name = "low"
provider = "openai"
model = "small"
[[tier]]
name = "mid"
provider = "openai"
model = "small"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"
[[tier]]
name = "high"
provider = "openai"
model = "unheard-of"
"""
PRICES = """
[[price]]
provider = "openai"
model = "sm*"
input_microusd_per_mtok = 3
output_microusd_per_mtok = 4
"""
CEILING = "unknown_input_microusd_per_mtok = 9\nunknown_output_microusd_per_mtok = 10\n"


def place(folder: Path, prices: str = PRICES, *, ceiling: str = "") -> Path:
    (folder / "prices.toml").write_text(prices)
    config = folder / "flyball.toml"
    config.write_text(CONFIG.format(ceiling=ceiling))
    return config


def price(paid_in: int, paid_out: int) -> ModelPrice:
    return ModelPrice(input_microusd_per_mtok=paid_in, output_microusd_per_mtok=paid_out)


@pytest.mark.requirement("price.unknown-is-ceiling-or-refused")
@pytest.mark.parametrize(("ceiling", "unknown"), [("", None), (CEILING, price(9, 10))])
def test_a_tiers_own_price_goes_first_then_the_lists_then_the_ceiling(
    tmp_path: Path, ceiling: str, unknown: ModelPrice | None
) -> None:
    config = load_config(place(tmp_path, ceiling=ceiling))
    listed = prices_of(config)
    tiers = [tier.priced_by(listed) for tier in tiers_of(config)]

    assert [tier.price for tier in tiers] == [price(3, 4), price(1_000_000, 2_000_000), unknown]


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        (PRICES.replace("= 3", "= -3"), r"price\[0\].input_microusd_per_mtok = -3"),
        (PRICES.replace("= 3", "= 3.5"), r"price\[0\].input_microusd_per_mtok = 3.5"),
        (PRICES.replace("= 3", "= 9999999999999"), r"price\[0\].input_microusd_per_mtok = 9999"),
        (PRICES.replace("= 3", '= "3"'), r"price\[0\].input_microusd_per_mtok = '3'"),
        (PRICES.replace("model", "modle"), r"price\[0\].modle"),
        (PRICES * 2, r"price\[1\]: openai sm\* is listed before"),
        ("[[price]", "not valid TOML"),
    ],
)
def test_bad_prices_are_refused_with_the_file_and_the_field(
    tmp_path: Path, prices: str, said: str
) -> None:
    config = load_config(place(tmp_path, prices))

    with pytest.raises(ConfigError, match=rf"prices\.toml: {said}"):
        prices_of(config)


def test_half_a_ceiling_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="go together"):
        load_config(place(tmp_path, ceiling="unknown_input_microusd_per_mtok = 9\n"))


def test_prices_that_are_not_there_are_said_with_their_path(tmp_path: Path) -> None:
    config = place(tmp_path)
    (tmp_path / "prices.toml").unlink()

    with pytest.raises(ConfigError, match=r"prices\.toml: no such file. pricing.file names it"):
        prices_of(load_config(config))


def test_the_file_prices_cached_input_in_its_list_and_in_its_tiers(tmp_path: Path) -> None:
    path = place(tmp_path, PRICES + "cached_input_microusd_per_mtok = 1\n")
    path.write_text(path.read_text() + 'input_usd_per_mtok = "3"\noutput_usd_per_mtok = "4"\n')
    path.write_text(path.read_text() + 'cached_input_usd_per_mtok = "0.5"\n')
    config = load_config(path)

    (listed,) = prices_of(config).prices
    assert listed.price.cached_input_microusd_per_mtok == 1
    own = [tier.price and tier.price.cached_input_microusd_per_mtok for tier in tiers_of(config)]
    assert own == [None, None, 500_000]


def test_a_tier_with_cached_input_dearer_than_input_is_refused_by_name(tmp_path: Path) -> None:
    path = place(tmp_path)
    path.write_text(path.read_text() + 'input_usd_per_mtok = "3"\noutput_usd_per_mtok = "4"\n')
    path.write_text(path.read_text() + 'cached_input_usd_per_mtok = "5"\n')

    with pytest.raises(ConfigError, match="tier high: cached_input_microusd_per_mtok: 5000000 is"):
        tiers_of(load_config(path))

from pathlib import Path

import pytest

from governor.effort import AnswerMode, Effort, EffortLevel, EffortStyle
from governor.learning.strategy import Strategy
from runtime.configuration.load import load_config, parse_config
from runtime.configuration.router import router_terms_of
from runtime.configuration.tier_sets import strategy_terms_of
from runtime.configuration.translate import tiers_of
from runtime.errors import ConfigError

MODELS = """
[[provider]]
name = "lab"
base_url = "http://127.0.0.1:1/v1"
effort_style = "vllm"

[[tier]]
name = "low"
provider = "lab"
model = "small"
"""


def test_a_tier_is_set_to_an_effort_a_mode_tools_and_examples() -> None:
    config = parse_config(
        MODELS
        + """
effort = "high"
effort_style = "openai"
effort_levels = ["low", "high", "xhigh"]
mode = "reasoning"
tools = ["repo__search"]
examples = 3
""",
        source="flyball.toml",
    )

    tier = tiers_of(config)[0]

    assert tier.effort == Effort.of(EffortLevel.HIGH)
    assert tier.effort_style is EffortStyle.OPENAI
    assert EffortLevel.XHIGH in tier.effort_levels
    assert (tier.mode, tier.tools, tier.examples) == (AnswerMode.REASONING, ("repo__search",), 3)


def test_a_tier_has_the_style_of_its_provider_and_an_effort_may_be_a_fraction() -> None:
    tier = tiers_of(parse_config(MODELS + "effort = 0.5", source="flyball.toml"))[0]

    assert (tier.effort, tier.effort_style) == (Effort(fraction=0.5), EffortStyle.VLLM)


@pytest.mark.parametrize("stated", ['"much"', "0", "9.5", "true"])
def test_what_is_no_effort_is_refused_and_says_what_is_one(stated: str) -> None:
    with pytest.raises(ConfigError, match="effort"):
        parse_config(MODELS + f"effort = {stated}", source="flyball.toml")


def test_the_least_output_of_a_tier_is_read_and_no_more_than_the_most() -> None:
    [tier] = tiers_of(parse_config(MODELS + "output_tokens_min = 64", source="flyball.toml"))

    assert tier.output_tokens_min == 64
    with pytest.raises(ConfigError, match="output_tokens_min: 9000 is more than"):
        parse_config(MODELS + "output_tokens_min = 9000", source="flyball.toml")


def test_a_judge_has_to_be_a_tier() -> None:
    with pytest.raises(ConfigError, match=r"strategy\.cascade\.judge: no \[\[tier\]\]"):
        parse_config(MODELS + '[strategy]\ncascade = { judge = "no" }', source="flyball.toml")


def test_a_strategy_and_what_an_answer_is_worth_are_read(tmp_path: Path) -> None:
    file = tmp_path / "flyball.toml"
    file.write_text(
        MODELS
        + '[strategy]\nusual = "cascade"\n'
        + 'cascade = { samples = 3, judge = "low" }\nexamples = { file = "worked.jsonl" }\n'
        + "[router]\nanswer_usd = 0.25\n",
        encoding="utf-8",
    )

    config = load_config(file)
    table = config.strategy

    terms = strategy_terms_of(table, config.router)
    assert (terms.strategy, terms.value_microusd) == (Strategy.CASCADE, 250_000)
    assert (terms.samples, terms.judge) == (3, "low")
    assert table.examples.file == str(tmp_path / "worked.jsonl")
    assert router_terms_of(config.router).answer_microusd == 250_000


def test_a_worth_that_nobody_states_is_a_dollar_and_for_rounds_what_the_tiers_cost() -> None:
    config = parse_config(MODELS, source="flyball.toml")

    assert router_terms_of(config.router).answer_microusd == 1_000_000
    assert strategy_terms_of(config.strategy, config.router).value_microusd is None

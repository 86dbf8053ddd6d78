"""Numbers and truth values of the file are taken as they stand, never out of another type."""

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.models import PricesFile
from runtime.errors import ConfigError

BUDGET = '[[budget]]\nid = "a"\nscope = "agent"\n'
STRICT = {"int", "float", "bool"}


def leaves_of(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every number and truth value that a validator's schema has, with its path."""
    if isinstance(schema, dict):
        if schema.get("type") in STRICT and not isinstance(schema.get("schema"), dict):
            yield path, schema
        for key, value in schema.items():
            if key not in {"metadata", "serialization", "ref"}:
                yield from leaves_of(value, f"{path}.{key}")
    elif isinstance(schema, list | tuple):
        for number, value in enumerate(schema):
            yield from leaves_of(value, f"{path}.{number}")


@pytest.mark.parametrize("table", [Config, PricesFile])
def test_no_number_or_truth_value_of_the_file_is_read_out_of_another_type(
    table: type[Config] | type[PricesFile],
) -> None:
    lax = [
        path for path, leaf in leaves_of(table.__pydantic_core_schema__) if not leaf.get("strict")
    ]

    assert not lax, f"annotate these with strict=True: {lax}"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (BUDGET + "limits = { tool_calls = true }", "budget[0].limits.tool_calls = True"),
        (BUDGET + 'limits = { tool_calls = "10" }', "budget[0].limits.tool_calls = '10'"),
        ("[default]\ncost_microusd = true", "default.cost_microusd = True"),
        ("[default]\napprove = 1", "default.approve = 1"),
        ('[default]\nallow = "yes"', "default.allow = 'yes'"),
        ("[default.limits]\ncpus = true", "default.limits.cpus = True"),
        ('[turns]\nturns = "3"', "turns.turns = '3'"),
    ],
)
def test_a_value_of_another_type_is_refused(text: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="flyball.toml")

    assert str(caught.value).startswith(f"flyball.toml: {where}: ")


def test_a_whole_number_is_a_share_of_processors_too() -> None:
    config = parse_config("[default.limits]\ncpus = 2", source="flyball.toml")

    assert config.default.limits.cpus == 2.0

"""What `flyball.toml` says of long conversations."""

import pytest

from runtime.configuration.load import parse_config
from runtime.errors import ConfigError
from runtime.model_gateway.compaction.terms import CompactionTerms, Fold, terms_for


def policy(text: str) -> list[CompactionTerms]:
    config = parse_config(text, source="the test")
    return [table.terms() for table in config.memory.compaction]


@pytest.mark.requirement("memory.compaction-by-policy")
def test_each_table_is_one_set_of_terms_and_the_first_that_fits_decides() -> None:
    stated = policy(
        "[[memory.compaction]]\n"
        'models = ["high", "gpt-*"]\nagents = ["ada"]\nabove_tokens = 50000\nkeep_turns = 2\n'
        'fold = "turns"\npin_tools = ["read_*"]\npin_patterns = ["KEEP*"]\nneeds_reader = true\n'
        "[[memory.compaction]]\nabove_tokens = 24000\n"
    )

    first, rest = stated
    assert (first.above_tokens, first.keep_turns, first.fold) == (50_000, 2, Fold.TURNS)
    assert (first.needs_reader, rest.needs_reader) == (True, False)
    assert first.pins("x", tool="read_policy")
    assert first.pins("please KEEP this")
    assert not first.pins("x", tool="search")
    assert rest == CompactionTerms(above_tokens=24_000)
    assert terms_for(stated, model="gpt-4o", agent="ada") is first
    assert terms_for(stated, model="gpt-4o", agent="bob") is rest
    assert terms_for(stated[:1], model="low", agent="ada") is None
    assert policy("") == []


def test_nothing_is_compacted_where_there_is_no_memory_to_keep_it() -> None:
    with pytest.raises(ConfigError, match="enabled = true"):
        policy("[memory]\nenabled = false\n[[memory.compaction]]\nabove_tokens = 24000\n")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "above_tokens"),
        ("above_tokens = 10", "above_tokens"),
        ("above_tokens = 24000\nkeep_turns = 0", "keep_turns"),
        ('above_tokens = 24000\nfold = "all"', "fold"),
        ('above_tokens = 24000\npin_tool = ["x"]', "pin_tools"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_the_name_of_its_key(line: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        policy(f"[[memory.compaction]]\n{line}\n")

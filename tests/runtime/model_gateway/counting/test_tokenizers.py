"""A tier's own tokenizer counts what its provider did not report: exactly, and off the clock."""

import json
import sys
from asyncio import CancelledError
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.tiers import ModelTier
from runtime.model_gateway.counting.output import tokens_counted, tokens_counted_min
from runtime.model_gateway.counting.tokenizer import (
    COUNTED_CHARS_MAX,
    TOKENIZERS,
    Tokenizer,
    Tokenizers,
    check_tokenizer,
)
from runtime.model_gateway.counting.unreported import produced_tokens_min, unreported
from runtime.model_gateway.errors import TokenizerError
from runtime.model_gateway.measured import Measured, Produced, UsageSource
from tests.runtime.model_gateway.counting import tokenizer_files
from tests.runtime.model_gateway.counting.tokenizer_files import (
    BYTE_LEVEL,
    BYTES_ALONE,
    FALLS_BACK,
    trained,
    write_ranks,
)
from tests.runtime.model_gateway.counting.world import a_payload, a_request, a_tier, wrote

pytest.importorskip("tiktoken", reason="the extra flyball[tokenizers]")

TEXT = (
    "Budgets are held before a call runs, and settled at what it used. "
    "数据库 naïve façade 👩‍👩‍👧\n\n    def settle(usage):\n        return usage\n"
) * 3


@pytest.fixture(scope="module", params=[BYTE_LEVEL, BYTES_ALONE, FALLS_BACK, "ranks"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tokenizer")
    if request.param == "ranks":
        return str(write_ranks(folder))
    path = folder / "tokenizer.json"
    trained(request.param).save(str(path))
    return str(path)


@cache
def byte_level() -> tokenizer_files.Tokenizer:
    return trained(BYTE_LEVEL)


def tier_of(file: str, **more: object) -> ModelTier:
    return a_tier(tokenizer=file, **{"hidden_reasoning": False, **more})


@pytest.mark.requirement("count.tokenizer-exact")
def test_a_stream_that_is_cut_at_any_byte_is_counted_as_its_tokenizer_counts_it(
    file: str,
) -> None:
    tokenizer = TOKENIZERS.load(file)
    content = TEXT.encode()
    for cut in range(0, len(content), 7):
        shown = content[:cut].decode(errors="ignore")
        pieces = Produced(pieces={})
        for at in range(0, len(shown), 5):
            pieces.note("0.content", shown[at : at + 5])

        found = unreported(pieces, a_payload(), tier_of(file), why="the stream was cut")

        assert isinstance(found, Measured)
        assert found.output_tokens == tokenizer.count(shown)
        assert (found.source, found.doubt) == (UsageSource.TOKENIZER, "the stream was cut")
        assert found.output_tokens <= len(shown.encode())


def test_choices_and_tools_are_counted_apart(file: str) -> None:
    parts = {"0.content": "one hel", "1.content": "lo two", "arguments": '{"a": 1}'}
    tokenizer = TOKENIZERS.load(file)

    found = unreported(wrote(**parts), a_payload(), tier_of(file), why="")

    assert isinstance(found, Measured)
    assert found.output_tokens == sum(tokenizer.count(text) for text in parts.values())


def test_input_is_counted_too_and_never_above_its_bound(file: str) -> None:
    messages = [{"role": "user", "content": TEXT * 20}]
    payload = a_payload(a_request({"messages": messages}))

    found = unreported(wrote(), payload, tier_of(file), why="")

    assert isinstance(found, Measured)
    assert TOKENIZERS.load(file).count(TEXT * 20) <= found.input_tokens
    assert found.input_tokens <= payload.input_tokens_max


def test_a_plain_conversation_is_counted_by_openais_own_rule(tmp_path: Path) -> None:
    file = str(write_ranks(tmp_path))
    count = TOKENIZERS.load(file).count
    messages = [
        {"role": "system", "content": "Be short.", "name": "house"},
        {"role": "user", "content": "Hello there"},
    ]

    found = unreported(wrote(), a_payload(a_request({"messages": messages})), tier_of(file), why="")

    assert isinstance(found, Measured)
    told = ("system", "Be short.", "house", "user", "Hello there")
    assert found.input_tokens == sum(map(count, told)) + 3 * 2 + 1 + 3


def test_images_and_tools_are_in_the_input_that_is_counted(file: str) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "see"}]}]
    plain = a_request({"messages": messages})
    more = a_request({"messages": messages, "tools": [tool]})

    counted = [
        unreported(wrote(), a_payload(request), tier_of(file), why="") for request in (plain, more)
    ]

    assert all(isinstance(found, Measured) for found in counted)
    assert counted[1].input_tokens > counted[0].input_tokens + 1_000  # type: ignore[union-attr]


def test_where_reasoning_may_be_hidden_what_was_held_is_charged(file: str) -> None:
    found = unreported(
        wrote(content="short"), a_payload(held=900), tier_of(file, hidden_reasoning=True), why=""
    )

    assert isinstance(found, Measured)
    assert (found.output_tokens, found.source) == (900, UsageSource.HELD)


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.sampled_from(["a", " word", "数", "\n    ", "x" * 3_000, TEXT]), max_size=30)
)
def test_what_is_proven_while_it_is_written_is_never_above_the_whole_count(
    pieces: list[str],
) -> None:
    made = byte_level()
    tokenizer = Tokenizer(lambda text: len(made.encode(text).ids), by_openai=False)
    produced = Produced(pieces={})
    least = 0
    for piece in pieces:
        produced.note("0.content", piece)
        found = tokens_counted_min(produced, tokenizer)
        assert found <= tokens_counted(produced, tokenizer)
        least = max(least, found)
    assert least <= produced.text_bytes


def test_a_ceiling_needs_no_count_until_the_bytes_could_reach_it(file: str) -> None:
    TOKENIZERS.load(file)
    produced = wrote(content="four score and seven")

    assert produced_tokens_min(produced, tier_of(file), ceiling=50) == 1
    assert 0 < produced_tokens_min(produced, tier_of(file), ceiling=5) <= 20


def test_a_long_stream_is_counted_a_few_times_and_not_at_each_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, looked_at = byte_level(), []

    def encode(text: str) -> int:
        looked_at.append(len(text))
        return len(made.encode(text).ids)

    tokenizer = Tokenizer(encode, by_openai=False)
    monkeypatch.setitem(TOKENIZERS._found, "counting", tokenizer)
    tier, produced, written = tier_of("counting"), Produced(pieces={}), 0
    words = [f" word{number % 100}" for number in range(20_000)]
    ceiling = len(made.encode("".join(words)).ids)
    for word in words:
        produced.note("0.content", word)
        written += len(word)
        assert produced_tokens_min(produced, tier, ceiling=ceiling) <= ceiling

    assert sum(looked_at) < 4 * written


class Panic(BaseException):
    """What a compiled library raises where its own code fails."""


@pytest.mark.requirement("count.failing-tokenizer-ends-no-call")
def test_a_tokenizer_that_panics_leaves_the_bytes() -> None:
    def panic(_text: str) -> int:
        raise Panic

    tokenizer = Tokenizer(panic, by_openai=False)

    assert tokenizer.count(" " * 1_000) == 1_000
    assert tokenizer.count_min(" " * 1_000) == 4
    assert tokens_counted_min(wrote(content=" " * 5_000), tokenizer) <= 20


@pytest.mark.parametrize("ours", [KeyboardInterrupt, SystemExit, CancelledError])
def test_what_ends_the_process_or_the_call_is_no_failure_of_a_tokenizer(
    ours: type[BaseException],
) -> None:
    def end(_text: str) -> int:
        raise ours

    with pytest.raises(ours):
        Tokenizer(end, by_openai=False).count("hello")


def test_a_very_long_text_is_counted_by_its_bytes(file: str) -> None:
    text = "x" * (COUNTED_CHARS_MAX + 1)

    assert TOKENIZERS.load(file).count(text) == len(text)


def test_half_of_a_pair_is_counted_and_not_a_failure(file: str) -> None:
    assert TOKENIZERS.load(file).count("a\ud83d b") >= 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tokenizer.json", "{}", "not a tokenizer that can be read"),
        ("tokenizer.json", "no JSON", "not a tokenizer that can be read"),
        ("o200k_base.tiktoken", "!!!! x\n", "not a tokenizer that can be read"),
        ("mine.tiktoken", "YQ== 0\n", "name begins with o200k, cl100k"),
        (None, "", "no such file"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused_by_name_each_time(
    tmp_path: Path, name: str | None, content: str, said: str
) -> None:
    path = tmp_path / (name or "missing.json")
    if name is not None:
        path.write_text(content)
    kept = Tokenizers()

    for _ in range(2):
        with pytest.raises(TokenizerError, match=said):
            kept.load(str(path))
    assert kept.ready(str(path)) is None


def test_a_call_of_a_tier_whose_tokenizer_cannot_be_used_is_bounded_and_says_so(
    tmp_path: Path,
) -> None:
    tier = tier_of(str(tmp_path / "missing.json"))
    found = unreported(wrote(content="hello"), a_payload(), tier, why="no report")

    assert isinstance(found, Measured)
    assert found.source is UsageSource.BOUND
    assert "the tokenizer of tier low cannot be used" in found.doubt


def test_a_missing_library_is_said_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setattr("runtime.model_gateway.counting.tokenizer.find_spec", lambda _: None)

    with pytest.raises(TokenizerError, match=r"pip install (tiktoken|tokenizers)"):
        check_tokenizer(str(path))


def test_a_file_that_would_cut_or_fill_texts_counts_them_whole(tmp_path: Path) -> None:
    made = trained(BYTE_LEVEL)
    made.enable_truncation(max_length=4)
    made.enable_padding(length=400)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(made.to_str())))

    whole = Tokenizers().load(str(path)).count(TEXT)

    assert whole == len(trained(BYTE_LEVEL).encode(TEXT).ids)

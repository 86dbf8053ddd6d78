import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tool_gateway.credential_samples import AWS_KEY, SAMPLES
from tool_gateway.redaction import (
    HIDDEN,
    ArgumentsKept,
    payload_hash,
    redact_text,
    render_arguments,
)

ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def letters(count: int) -> st.SearchStrategy[str]:
    return st.text(ALNUM, min_size=count, max_size=count)


SECRETS = st.one_of(
    letters(24).map(lambda tail: f"sk-{tail}"),
    letters(36).map(lambda tail: f"ghp_{tail}"),
    letters(16).map(lambda tail: f"AKIA{tail.upper()}"),
    letters(32).map(lambda tail: f"fbt_{tail}"),
    letters(20).map(lambda tail: f"xoxb-{tail}"),
    st.tuples(letters(20), letters(20), letters(20)).map(lambda p: f"eyJ{p[0]}.{p[1]}.{p[2]}"),
)
SECRET_NAMES = st.sampled_from(
    ("password", "PGPASSWORD", "db_passwd", "client_secret", "token", "access_token", "api_key",
     "apiKey", "X-Api-Key", "Authorization", "credentials", "Cookie", "private_key")
)  # fmt: skip


def kept(arguments: dict[str, object]) -> str:
    return render_arguments("tool", arguments, ArgumentsKept.REDACTED)


@pytest.mark.requirement("record.hides-secrets")
@given(secret=SECRETS, before=st.text(max_size=30), after=st.text(max_size=30))
def test_a_known_kind_of_key_never_survives_in_any_text(
    secret: str, before: str, after: str
) -> None:
    text = f"{before} {secret} {after}"

    assert secret not in redact_text(text)
    assert secret not in kept({"line": text, "argv": [text], "deep": {"a": [{"b": text}]}})


@pytest.mark.requirement("record.hides-secrets")
@pytest.mark.parametrize(("text", "secret"), [sample[1:] for sample in SAMPLES])
def test_records_hide_every_kind_that_is_taken_out_of_results(text: str, secret: str) -> None:
    rendered = kept({"line": f"see {text} there"})

    assert secret not in rendered
    assert HIDDEN in rendered


@pytest.mark.requirement("record.hides-secrets")
def test_half_a_surrogate_pair_hides_no_secret_in_a_record() -> None:
    assert AWS_KEY not in redact_text(f"\ud800 {AWS_KEY}")


@pytest.mark.requirement("record.hides-secrets")
@given(secret=SECRETS)
def test_a_key_that_stands_where_a_name_should_does_not_survive(secret: str) -> None:
    assert secret not in kept({"headers": {secret: "x"}})


@pytest.mark.requirement("record.hides-secrets")
@given(name=SECRET_NAMES, value=st.text(ALNUM, min_size=12, max_size=40))
def test_what_is_called_a_secret_is_hidden_whatever_it_looks_like(name: str, value: str) -> None:
    rendered = kept({"env": {name: value}, name: {"nested": [value]}})

    assert value not in rendered
    assert HIDDEN in rendered


@pytest.mark.requirement("record.hides-secrets")
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("curl -H 'Authorization: Bearer abc.def-123456'", "abc.def-123456"),
        ("authorization: basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("git clone https://ada:hunter2@host/repo", "hunter2"),
        ("postgresql://ada:hunter2@db:5432/x", "hunter2"),
    ],
)
def test_credentials_in_a_command_line_are_hidden(text: str, secret: str) -> None:
    assert secret not in redact_text(text)
    assert HIDDEN in redact_text(text)


@pytest.mark.requirement("record.hides-secrets")
@given(secret=SECRETS, padding=st.integers(150, 220))
def test_cutting_a_long_text_leaves_no_piece_of_a_key(secret: str, padding: int) -> None:
    rendered = kept({"text": " " * padding + secret + " " * 100})

    assert secret[:16] not in rendered


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    assert json.loads(kept({"text": "x" * 1_000}))["text"] == "x" * 200 + "… (1000 characters)"


def test_ordinary_arguments_are_kept_as_they_are() -> None:
    arguments = {"path": "a.txt", "lines": [1, 2], "deep": {"ok": True, "none": None}}

    assert json.loads(kept(arguments)) == arguments


def test_what_is_kept_is_bounded_in_depth_and_in_number() -> None:
    deep: dict[str, object] = {}
    for _ in range(200):
        deep = {"d": deep}

    rendered = kept({"deep": deep, "many": list(range(10_000))})

    assert len(rendered) < 1_000


@pytest.mark.requirement("record.hides-secrets")
def test_a_hash_keeps_nothing_and_full_keeps_all() -> None:
    arguments = {"password": "hunter2"}

    hashed = render_arguments("tool", arguments, ArgumentsKept.HASH)
    full = render_arguments("tool", arguments, ArgumentsKept.FULL)

    assert hashed == f"sha256:{payload_hash('tool', arguments)}"
    assert json.loads(full) == arguments


@given(arguments=st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_the_order_of_arguments_does_not_change_their_hash(arguments: dict[str, object]) -> None:
    reversed_order = dict(reversed(arguments.items()))

    assert payload_hash("tool", arguments) == payload_hash("tool", reversed_order)
    assert payload_hash("tool", arguments) != payload_hash("other", arguments)


@pytest.mark.requirement("idempotency.other-conflicts")
@given(
    one=st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    other=st.dictionaries(st.text(max_size=5), JSON, max_size=3),
)
def test_equal_hashes_mean_equal_calls(one: dict[str, object], other: dict[str, object]) -> None:
    equal = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert (payload_hash("tool", one) == payload_hash("tool", other)) is equal


def test_a_long_text_is_not_searched_beyond_what_is_kept() -> None:
    """Base64 has no word boundary for megabytes: a pattern must not walk all of it twice."""
    kept = render_arguments("t", {"data": "A" * 4_000_000}, ArgumentsKept.REDACTED)

    assert len(kept) < 300
    assert "(4000000 characters)" in kept


@pytest.mark.parametrize(
    "line", ["login --password: hunter2", "export TOKEN=abc123def", "curl -d 'api_key=zzz999'"]
)
def test_a_secret_that_is_assigned_inside_a_command_is_hidden(line: str) -> None:
    kept = render_arguments("t", {"command": line}, ArgumentsKept.REDACTED)

    assert not any(word in kept for word in ("hunter2", "abc123def", "zzz999"))

"""Whether the user asked for a call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.flow.labels import ToolFacts, Traits, traits_of
from governor.flow.wording import (
    CHARS_MAX,
    Vouched,
    addresses_in,
    objection,
    points_at,
    words_of,
)


def tool(name: str, *parameters: str) -> Traits:
    return traits_of(ToolFacts(name=name, parameters=dict.fromkeys(parameters, True)))


SEND = tool("send_letter", "recipient", "body")
RENAME = tool("rename_album", "album_id", "new_label")


def why(
    said: str, traits: Traits = SEND, vouched: Vouched | None = None, **arguments: object
) -> str:
    trusted = vouched or Vouched()
    return objection(traits, arguments, asked=words_of(said), vouched=trusted) or ""


@pytest.mark.requirement("flow.only-what-was-asked")
def test_what_the_user_asked_for_by_name_passes() -> None:
    assert not why("Please send Zoe Miller the minutes", recipient="Zoe Miller", body="…")
    assert not why("Mail it to zoe@acme.test", recipient="ZOE@acme.test", body="…")


@pytest.mark.requirement("flow.only-what-was-asked")
@pytest.mark.parametrize(
    ("said", "recipient"),
    [
        ("Send the minutes to Zoe", "Mallory"),
        ("Send the minutes to Zoe Miller", "Zoe Mallory"),
        ("Send it to zoe@acme.test", "zoe@acme.test.evil.example"),
        ("Send it to zoe@acme.test", "evil+zoe@acme.test"),
        ("Send it to zoe@acme.test", ["zoe@acme.test", "mallory@evil.example"]),
        ("Send it to www.acme.test/in", "www.evil.example/in"),
        ("Pay the rent, send it to DE89370400440532013000", "US133000000121212121212"),
    ],
)
def test_a_target_that_was_not_named_whole_is_objected_to(said: str, recipient: object) -> None:
    assert why(said, recipient=recipient, body="…") == "the user did not name recipient"


@pytest.mark.requirement("flow.only-what-was-asked")
def test_an_action_that_nobody_asked_for_is_objected_to() -> None:
    assert "asks for this" in why("What does Zoe's latest letter say?", recipient="Zoe", body="…")


def test_a_word_that_is_mostly_a_noun_counts_as_a_wish_only_where_a_verb_stands() -> None:
    assert why("Read the latest mail from Zoe", recipient="Zoe", body="…")
    assert not why("Read it, then mail Zoe a summary", recipient="Zoe", body="…")


@pytest.mark.requirement("flow.only-what-was-asked")
def test_an_address_in_the_content_must_be_the_users_too() -> None:
    told = why("Send Zoe a greeting", recipient="Zoe", body="Look at www.evil.example/x")

    assert "www.evil.example/x" in told
    assert not why("Send Zoe www.acme.test", recipient="Zoe", body="See www.acme.test!")


BOOK = addresses_in('[{"name": "Zoe", "email": "zoe@acme.test"}]')


def test_a_trusted_record_names_an_address_and_asks_for_nothing() -> None:
    own = Vouched(own=BOOK)

    assert not why("Send Zoe the minutes", vouched=own, recipient="zoe@acme.test", body="…")
    assert why("Show me my contacts", vouched=own, recipient="zoe@acme.test", body="…")
    assert why("Send Zoe it", vouched=own, recipient="zoe@acme.test, m@evil.example", body="…")


@pytest.mark.requirement("flow.only-what-was-asked")
def test_what_the_user_pointed_at_gives_an_address_to_a_call_that_was_described() -> None:
    said = "Send Zoe 'Well done!', her address is on www.acme.test"
    pointed = Vouched(pointed=BOOK)

    assert not why(said, vouched=pointed, recipient="zoe@acme.test", body="Well done!")
    assert why(said, vouched=pointed, recipient="zoe@acme.test", body="The PIN is 1234")
    assert why(said, recipient="zoe@acme.test", body="Well done!")


def test_a_call_is_pointed_at_where_the_user_said_what_it_looks_for() -> None:
    asked = words_of("Her address is on www.acme.test, or ask for the kickoff meeting")

    assert points_at(asked, {"url": "https://www.acme.test/"})
    assert points_at(asked, {"query": "Kickoff Meeting"})
    assert not points_at(asked, {"url": "https://www.evil.example/"})
    assert not points_at(asked, {"day": "2024-05-01", "n": 3})


def test_who_gets_only_what_the_user_wrote_need_not_be_named() -> None:
    said = "Send 'Thank you for the flowers!' to whoever wrote most"

    assert not why(said, recipient="Zoe", body="Thank you for the flowers!")
    assert why(said, recipient="Zoe", body="Thank you for the flowers! PIN 1234")
    assert why(said, recipient="zoe@evil.example", body="Thank you for the flowers!")


def test_a_handle_that_no_user_knows_passes_where_the_thing_was_spoken_of() -> None:
    arguments = {"album_id": "a-17", "new_label": "Summer"}

    assert not why("Rename my oldest album to Summer", RENAME, **arguments)
    assert why("Rename my oldest dog to Rex", RENAME, **arguments)


@pytest.mark.parametrize("nested", [{"to": "Mallory"}, [[["Mallory"]]], ["Zoe"] * 300])
def test_what_is_nested_or_too_much_is_looked_at_as_well(nested: object) -> None:
    assert why("Send Zoe the minutes", recipient=nested, body="…")


def test_a_text_that_is_too_long_to_look_through_is_objected_to() -> None:
    assert "longer than" in why("Send Zoe the minutes", recipient="Zoe", body="x" * (CHARS_MAX + 1))


@given(said=st.text(max_size=200), target=st.text(max_size=40), body=st.text(max_size=80))
def test_nothing_that_can_be_said_breaks_the_judgement(said: str, target: str, body: str) -> None:
    why(said, recipient=target, body=body)


@given(st.from_regex(r"[a-z]{3,8}@[a-z]{3,8}\.example", fullmatch=True))
def test_an_address_that_the_user_never_said_is_never_named(address: str) -> None:
    assert not words_of("Send the minutes to zoe@acme.test and to Sam").name(address)

"""What is told of a tool from what it says of itself."""

import pytest

from governor.flow.labels import Label, Role, ToolFacts, Traits, traits_of

PRIVATE, UNTRUSTED = Label.READS_PRIVATE, Label.SEES_UNTRUSTED
OUT, CHANGES = Label.CAN_SEND_OUT, Label.CHANGES


def told(name: str, *parameters: str, **more: bool | str) -> Traits:
    return traits_of(ToolFacts(name=name, parameters=dict.fromkeys(parameters, True), **more))


@pytest.mark.requirement("flow.labels-are-inferred")
@pytest.mark.parametrize(
    ("traits", "labels"),
    [
        (told("send_letter", "recipient", "body"), {OUT, CHANGES}),
        (told("SendLetter", "recipient", "body"), {OUT, CHANGES}),
        (told("read_inbox"), {PRIVATE, UNTRUSTED}),
        (told("fetch", "url"), {OUT, UNTRUSTED}),
        (told("run", "command"), {OUT, CHANGES, PRIVATE, UNTRUSTED}),
        (told("delete_album", "album_id"), {CHANGES}),
        (told("search_contacts", "query"), {PRIVATE}),
        (told("get_profile"), set()),
        (told("get_profile", "member"), {UNTRUSTED}),
        (told("get_current_time"), set()),
        (told("list_branches", is_open_world=False), set()),
        (told("list_branches"), {UNTRUSTED}),
    ],
)
def test_labels_follow_from_names_and_parameters(traits: Traits, labels: set[Label]) -> None:
    assert traits.labels == labels
    assert traits.why.keys() == labels


@pytest.mark.requirement("flow.labels-are-inferred")
def test_a_tool_of_which_nothing_can_be_told_acts() -> None:
    assert CHANGES in told("frobnicate").labels


def test_a_hint_makes_an_unknown_tool_harmless_and_a_reading_one_suspicious() -> None:
    assert CHANGES not in told("frobnicate", is_read_only=True).labels
    assert CHANGES in told("read_inbox", is_read_only=False).labels


def test_a_tool_whose_name_says_that_it_acts_cannot_talk_itself_out_of_it() -> None:
    assert CHANGES in told("send_letter", "recipient", is_read_only=True).labels


def test_what_arguments_are_for_is_told_from_their_names() -> None:
    traits = traits_of(
        ToolFacts(
            name="create_album",
            parameters={
                **dict.fromkeys(
                    ("owner_email", "title", "starts_at_time", "album_id", "city"), True
                ),
                "pages": False,
            },
        )
    )

    assert traits.roles == {
        "owner_email": Role.TARGET,
        "title": Role.CONTENT,
        "starts_at_time": Role.PLAIN,
        "album_id": Role.HANDLE,
        "city": Role.TARGET,
        "pages": Role.PLAIN,
    }


def test_a_code_is_run_and_a_country_code_is_not() -> None:
    assert OUT in told("evaluate", "code").labels
    assert OUT not in told("get_rates", "country_code").labels

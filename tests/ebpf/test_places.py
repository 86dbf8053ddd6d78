"""The names of directories that ids of any kind become."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebpf.domains.place import Place, directory_name


@pytest.mark.parametrize("text", ["call_0a1b", "ses-7", "A", "0", "x" * 64])
def test_a_plain_id_is_its_own_name(text: str) -> None:
    assert directory_name(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "../..", "a/b", "memory.max", "tasks", "_servers", "flyball-0123-7"),
        *("notify_on_release", "naïve", "a b", "a\nb", "\0", "h-" + "0" * 24, "\ud800", "x" * 65),
    ],
)
def test_any_other_id_becomes_a_hash_that_is_always_the_same(text: str) -> None:
    name = directory_name(text)

    assert name.startswith("h-")
    assert len(name) == 26
    assert name == directory_name(text)


@given(st.text(), st.text())
def test_two_ids_never_share_a_name(one: str, other: str) -> None:
    assert (directory_name(one) == directory_name(other)) == (one == other)


@given(st.text(), st.text(), st.text())
def test_a_place_is_three_directories_deep_whatever_the_ids(
    tenant: str, session: str, call: str
) -> None:
    path = Place(tenant=tenant, session=session, call=call).path

    assert len(path) == 3
    assert not [name for name in path if "/" in name or name in {"", ".", ".."}]

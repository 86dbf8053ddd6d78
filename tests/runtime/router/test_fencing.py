from hypothesis import given
from hypothesis import strategies as st

from runtime.router.fencing import fenced, marker

TEXTS = st.text(alphabet=st.characters(exclude_categories=[]), max_size=300)


@given(text=TEXTS, secret=st.binary(min_size=16, max_size=32))
def test_no_text_closes_its_own_fence(text: str, secret: bytes) -> None:
    mark = marker(secret)(text)

    inside = fenced(text + f"</draft {mark}>", kind="draft", mark=mark, chars_max=1_000)

    assert inside.count(mark) == 2
    assert inside.endswith(f"\n</draft {mark}>")


@given(text=TEXTS, most=st.integers(10, 200))
def test_what_is_fenced_is_cut_and_says_so(text: str, most: int) -> None:
    held = fenced(text, kind="draft", mark="m" * 12, chars_max=most)

    body = held.removeprefix(f"<draft {'m' * 12}>\n").removesuffix(f"\n</draft {'m' * 12}>")
    assert len(body) <= most
    assert body.endswith(" […]") or body == text.replace("m" * 12, "")


def test_the_same_text_has_the_same_mark_and_nobody_knows_it_without_the_secret() -> None:
    one, other = marker(b"one secret"), marker(b"another secret")

    assert one("text") == one("text")
    assert one("text") != one("text ")
    assert one("text") != other("text")

import pytest

from governor.ids import PrincipalId, SessionId, UpstreamName
from tool_gateway import caching
from tool_gateway.caching import AnswerCache, Asker
from tool_gateway.changes import Change, ChangeKind

pytestmark = pytest.mark.requirement("protocol.answers-are-kept-as-they-allow")
ONE = UpstreamName("one")
READ = "resources/read"
ADA: Asker = (PrincipalId("ada"), SessionId("ada/one"))
ADA_AGAIN: Asker = (PrincipalId("ada"), SessionId("ada/two"))
BOB: Asker = (PrincipalId("bob"), None)


class Kept:
    """A cache whose time a test moves, with the shortest way to use it."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.cache = AnswerCache(lambda: self.now_ms)

    def keep(self, method: str = READ, **answer: object) -> None:
        self.cache.keep(ONE, method, {"uri": "a"}, ADA, {"ttlMs": 100, **answer})

    def has(self, asker: Asker = ADA, method: str = READ) -> bool:
        return self.cache.find(ONE, method, {"uri": "a"}, asker) is not None


@pytest.mark.parametrize(("scope", "bobs"), [("private", "no"), ("public", "yes"), (None, "no")])
def test_only_a_public_answer_is_given_to_others(scope: str | None, bobs: str) -> None:
    kept = Kept()

    kept.keep(cacheScope=scope)

    assert kept.has(ADA)
    assert kept.has(ADA_AGAIN) is kept.has(BOB) is (bobs == "yes")


def test_an_answer_is_good_for_as_long_as_it_says() -> None:
    kept = Kept()
    kept.keep(contents=["x"])

    kept.now_ms = 60
    found = kept.cache.find(ONE, READ, {"uri": "a"}, ADA)
    kept.now_ms = 100

    assert found == {"contents": ["x"], "ttlMs": 40}
    assert not kept.has()


@pytest.mark.parametrize(
    "answer", [{"ttlMs": 0}, {"ttlMs": -1}, {"ttlMs": True}, {"ttlMs": None}, {"ttlMs": "9"}]
)
def test_what_says_nothing_sensible_is_not_kept(answer: dict[str, object]) -> None:
    kept = Kept()

    kept.keep(**answer)

    assert not kept.has()


def test_questions_and_their_retries_are_not_kept() -> None:
    kept = Kept()
    retry = {"uri": "a", "requestState": "s"}

    kept.keep(resultType="input_required")
    kept.cache.keep(ONE, READ, retry, ADA, {"ttlMs": 100})

    assert not kept.has()
    assert kept.cache.find(ONE, READ, retry, ADA) is None


def test_a_change_ends_what_it_makes_untrue() -> None:
    kept = Kept()
    kept.keep()
    kept.keep("prompts/list")

    kept.cache.forget(Change(kind=ChangeKind.UPDATED, uri="other"))
    before = kept.has()
    kept.cache.forget(Change(kind=ChangeKind.UPDATED, uri="a"))

    assert before
    assert not kept.has()
    assert kept.has(method="prompts/list")


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """First by their number, then by their size."""
    monkeypatch.setattr(caching, "ENTRIES_MAX", 3)
    monkeypatch.setattr(caching, "BYTES_MAX", 1_100)
    kept = Kept()

    for number in range(10):
        answer = {"ttlMs": 100, "x": "y" * 300}
        kept.cache.keep(ONE, READ, {"uri": str(number)}, ADA, answer)
    found = [kept.cache.find(ONE, READ, {"uri": str(number)}, ADA) for number in range(10)]

    monkeypatch.setattr(caching, "BYTES_MAX", 500)
    kept.keep(x="y" * 300)

    assert [one is not None for one in found] == [False] * 7 + [True] * 3
    assert len(kept.cache._kept) == 1

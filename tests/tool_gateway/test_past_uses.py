"""What is remembered of past use: per tenant, bounded, and less with time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.ids import SessionId, TenantId
from tool_gateway.discovery import listing, trails
from tool_gateway.discovery.trails import Trails, step_of
from tool_gateway.discovery.uses import (
    FOLLOWERS_MAX,
    HALF_LIFE_MS,
    SESSIONS_MAX,
    TENANTS_MAX,
    TOOLS_MAX,
    WORDS_MAX,
    PastUses,
)

ACME, OTHER = TenantId("acme"), TenantId("other")
ONE, TWO = SessionId("one"), SessionId("two")


def used(uses: PastUses, tool: str, *, times: int = 1, at_ms: int = 0) -> None:
    for _ in range(times):
        uses.note_success(ACME, ONE, tool=tool, now_ms=at_ms)


def test_what_is_used_more_weighs_more_and_never_reaches_one() -> None:
    uses = PastUses()
    used(uses, "often", times=100)
    used(uses, "once")

    usual = uses.usual(ACME, now_ms=0)

    assert 1 > usual["often"] > usual["once"] > 0


def test_a_use_weighs_half_after_the_half_life() -> None:
    uses = PastUses()
    used(uses, "a", times=6)

    now, later = uses.usual(ACME, now_ms=0), uses.usual(ACME, now_ms=HALF_LIFE_MS)

    assert now["a"] == pytest.approx(6 / 9)
    assert later["a"] == pytest.approx(3 / 6)


def test_a_clock_that_stepped_back_does_no_harm() -> None:
    uses = PastUses()
    used(uses, "a", at_ms=1_000)
    used(uses, "a", at_ms=0)

    assert 0 < uses.usual(ACME, now_ms=0)["a"] < 1


@pytest.mark.requirement("tools.learned-from-success")
def test_only_a_tool_that_was_found_gets_the_words() -> None:
    uses = PastUses()
    uses.note_search(ONE, request="draw the figures", found=["chart"])
    uses.note_success(ACME, ONE, tool="mail", now_ms=0)
    uses.note_success(ACME, ONE, tool="chart", now_ms=0)

    fitting = uses.fitting(ACME, "figures", now_ms=0)

    assert set(fitting) == {"chart"}
    assert 0 < fitting["chart"] < 1


@pytest.mark.requirement("tools.learned-from-success")
def test_a_search_in_other_words_teaches_the_first_words_too() -> None:
    uses = PastUses()
    uses.note_search(ONE, request="gizmo", found=[])
    uses.note_search(ONE, request="figures", found=["chart", "mail"])
    uses.note_success(ACME, ONE, tool="chart", now_ms=0)
    uses.note_search(ONE, request="letters", found=["mail"])
    uses.note_success(ACME, ONE, tool="mail", now_ms=0)

    for request, tools in (("gizmo", {"chart"}), ("figures", {"chart"}), ("letters", {"mail"})):
        assert set(uses.fitting(ACME, request, now_ms=0)) == tools


def test_a_word_that_leads_to_many_tools_says_less_than_one_that_leads_to_one() -> None:
    uses = PastUses()
    for number in range(5):
        uses.note_search(ONE, request=f"get thing{'abcde'[number]}", found=[f"tool_{number}"])
        used(uses, f"tool_{number}")

    fitting = uses.fitting(ACME, "get thinga", now_ms=0)

    assert fitting["tool_0"] > 3 * fitting["tool_1"] > 0


def test_a_search_explains_a_few_calls_of_its_own_session() -> None:
    uses = PastUses()
    uses.note_search(ONE, request="figures", found=["chart", "late"])
    uses.note_success(ACME, TWO, tool="chart", now_ms=0)
    assert uses.fitting(ACME, "figures", now_ms=0) == {}

    used(uses, "chart", times=FOLLOWERS_MAX)
    used(uses, "late")

    assert set(uses.fitting(ACME, "figures", now_ms=0)) == {"chart"}


@pytest.mark.requirement("tools.learned-per-tenant")
def test_nothing_is_known_of_another_tenant() -> None:
    uses = PastUses()
    uses.note_search(ONE, request="figures", found=["chart"])
    used(uses, "chart")

    assert uses.usual(OTHER, now_ms=0) == {}
    assert uses.fitting(OTHER, "figures", now_ms=0) == {}


@pytest.mark.requirement("tools.learned-per-tenant")
def test_the_memory_is_bounded_whatever_is_called() -> None:
    uses = PastUses()
    for number in range(TOOLS_MAX + 5):
        used(uses, f"tool_{number}")
    for number in range(TENANTS_MAX + 5):
        uses.note_success(TenantId(f"t{number}"), ONE, tool="a", now_ms=0)
    for number in range(SESSIONS_MAX + 5):
        uses.note_search(SessionId(f"s{number}"), request="a", found=["a"])

    assert uses.usual(ACME, now_ms=0) == {}
    assert len(uses._tenants) == TENANTS_MAX
    assert len(uses._searches) == SESSIONS_MAX
    for number in range(TOOLS_MAX + 5):
        used(uses, f"tool_{number}")
    assert len(uses.usual(ACME, now_ms=0)) == TOOLS_MAX


@given(st.lists(st.text(alphabet="abcdefgh ", max_size=300), max_size=6))
def test_the_words_of_a_tool_are_bounded(requests: list[str]) -> None:
    uses = PastUses()
    for request in requests:
        uses.note_search(ONE, request=request, found=["a"])
        used(uses, "a")

    for tools in uses._tenants.values():
        assert all(len(use.words) <= WORDS_MAX for use in tools.values())


def test_a_trail_tells_the_latest_steps_of_its_own_session() -> None:
    steps = Trails()
    for number in range(trails.STEPS_MAX + 1):
        steps.note(ONE, f"step {number}")

    told = steps.of(ONE).splitlines()

    assert len(told) == trails.STEPS_MAX
    assert told[0] == f"step {trails.STEPS_MAX}"
    assert steps.of(TWO) == ""
    for number in range(trails.SESSIONS_MAX):
        steps.note(SessionId(f"s{number}"), "x")
    assert steps.of(ONE) == ""


def test_a_step_is_the_tool_and_its_short_texts() -> None:
    assert step_of("files__read", {"path": "a.txt", "lines": 5}) == "files__read a.txt"
    assert len(step_of("t", {str(n): "x" * 1_000 for n in range(99)})) < 1_000


NAMES = st.dictionaries(st.text(min_size=1, max_size=5), st.integers(1, 50), max_size=12)


@given(NAMES, st.integers(0, 300), st.lists(st.text(max_size=5), max_size=12))
@pytest.mark.requirement("tools.list-is-cut-by-relevance")
def test_a_cut_list_is_within_its_bound_and_wastes_no_room(
    sizes: dict[str, int], tokens_max: int, ranked: list[str]
) -> None:
    kept = {name for name in sizes if name < "b"}

    taken = listing.chosen(
        sizes, tokens_max=tokens_max, is_kept=lambda name: name in kept, ranked=ranked
    )

    room = tokens_max - sum(sizes[name] for name in kept)
    spent = sum(sizes[name] for name in taken - kept)
    assert kept <= taken <= set(sizes)
    assert spent <= max(room, 0)
    assert all(sizes[name] > room - spent for name in set(sizes) - taken)


def test_what_ranks_higher_is_taken_first() -> None:
    sizes = {"a": 10, "b": 10, "huge": 100, "c": 10}

    taken = listing.chosen(
        sizes, tokens_max=20, is_kept=lambda _: False, ranked=["gone", "huge", "c", "b"]
    )

    assert taken == {"b", "c"}

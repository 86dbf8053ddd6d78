import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.fairness.claim import Priority, Urgency
from governor.ids import PrincipalId, TenantId
from tests.tool_gateway.makers import FakeClock
from tool_gateway.errors import InvalidContextError
from tool_gateway.identity import NAME_LENGTH_MAX, Caller, read_context
from tool_gateway.sessions import TOKENS_MAX, ImplicitSessions

IDLE_MS = 1_000


def test_a_request_that_says_nothing_about_itself_has_no_context() -> None:
    context = read_context({}, {})

    assert (context.session_name, context.turn, context.idempotency_key) == (None, None, None)


@pytest.mark.requirement("context.header-wins")
def test_a_header_is_believed_before_meta() -> None:
    context = read_context(
        {"flyball-session": "s-head", "flyball-turn": "t-head", "idempotency-key": "k-head"},
        {
            "flyball/session": "s-meta",
            "flyball/turn": "t-meta",
            "flyball/idempotency_key": "k-meta",
        },
    )

    assert (context.session_name, context.turn, context.idempotency_key) == (
        "s-head",
        "t-head",
        "k-head",
    )


@pytest.mark.requirement("context.header-wins")
def test_meta_is_believed_before_the_session_of_the_older_protocol() -> None:
    legacy = {"mcp-session-id": "s-legacy"}

    assert read_context(legacy, {"flyball/session": "s-meta"}).session_name == "s-meta"
    assert read_context(legacy, {}).session_name == "s-legacy"


@pytest.mark.requirement("input.context-is-checked")
@pytest.mark.parametrize("value", ["", "a\nb", "\x00", "x" * (NAME_LENGTH_MAX + 1)])
@pytest.mark.parametrize(
    "header", ["flyball-session", "flyball-turn", "idempotency-key", "mcp-session-id"]
)
def test_a_header_that_is_no_short_printable_string_is_refused(header: str, value: str) -> None:
    with pytest.raises(InvalidContextError, match=header):
        read_context({header: value}, {})


@pytest.mark.requirement("input.context-is-checked")
@pytest.mark.parametrize("value", [5, True, ["a"], {"a": 1}, ""])
@pytest.mark.parametrize("key", ["session", "turn", "idempotency_key"])
def test_a_meta_value_that_is_no_string_is_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidContextError, match=f"flyball/{key}"):
        read_context({}, {f"flyball/{key}": value})


@given(st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=NAME_LENGTH_MAX))
def test_a_short_printable_name_is_taken_as_it_is(name: str) -> None:
    assert read_context({"flyball-session": name}, {}).session_name == name


def test_a_caller_is_known_by_tenant_agent_and_token() -> None:
    one = Caller(tenant=TenantId("acme"), agent=PrincipalId("ada"), token_id="tok_1")
    same = Caller(tenant=TenantId("acme"), agent=PrincipalId("ada"), token_id="tok_1")

    assert one == same


def test_a_token_keeps_its_unnamed_session_until_it_has_been_idle() -> None:
    clock = FakeClock()
    sessions = ImplicitSessions(clock=clock, idle_ms=IDLE_MS)

    first = sessions.name_for("tok_1")
    clock.at_ms += IDLE_MS
    second = sessions.name_for("tok_1")
    sessions.touch("tok_1")
    clock.at_ms += IDLE_MS
    third = sessions.name_for("tok_1")
    sessions.touch("tok_1")
    clock.at_ms += IDLE_MS + 1
    fourth = sessions.name_for("tok_1")

    assert first == second == third
    assert fourth != third


def test_a_session_that_is_only_asked_for_goes_idle_all_the_same() -> None:
    """A killed session meets only denials; asking must not keep it for ever."""
    clock = FakeClock()
    sessions = ImplicitSessions(clock=clock, idle_ms=IDLE_MS)

    first = sessions.name_for("tok_1")
    clock.at_ms += IDLE_MS
    sessions.name_for("tok_1")
    clock.at_ms += 1

    assert sessions.name_for("tok_1") != first


def test_two_tokens_never_share_an_unnamed_session() -> None:
    sessions = ImplicitSessions(clock=FakeClock(), idle_ms=IDLE_MS)

    assert sessions.name_for("tok_1") != sessions.name_for("tok_2")


def test_the_token_that_rested_longest_is_forgotten_first() -> None:
    sessions = ImplicitSessions(clock=FakeClock(), idle_ms=IDLE_MS)
    names = {token: sessions.name_for(token) for token in map(str, range(TOKENS_MAX))}
    sessions.name_for("0")

    sessions.name_for("one more")

    assert sessions.name_for("0") == names["0"]
    assert sessions.name_for("1") != names["1"]


@pytest.mark.requirement("context.header-wins")
def test_priority_and_deadline_come_from_headers_before_meta() -> None:
    meta = {"flyball/priority": "low", "flyball/deadline_ms": 250}
    headers = {"flyball-priority": "high", "flyball-deadline-ms": "1500"}

    assert read_context({}, {}).urgency == Urgency()
    assert read_context({}, meta).urgency == Urgency(priority=Priority.LOW, deadline_ms=250)
    assert read_context(headers, meta).urgency == Urgency(priority=Priority.HIGH, deadline_ms=1500)


@pytest.mark.requirement("input.context-is-checked")
@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({"flyball/priority": "urgent"}, "use one of low, normal, high, not 'urgent'"),
        ({"flyball/priority": 3}, "expected a printable string"),
        *(
            ({"flyball/deadline_ms": value}, "1 to 86400000, got")
            for value in (0, -1, True, 1.5, "soon", "", "1" * 5_000, 86_400_001)
        ),
    ],
)
def test_a_priority_or_a_deadline_that_means_nothing_is_refused(
    meta: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidContextError, match=said):
        read_context({}, meta)


@pytest.mark.requirement("run.key-is-pinned")
def test_the_session_of_the_older_protocol_names_none_for_who_has_only_one() -> None:
    caller = Caller(tenant=TenantId("acme"), agent=PrincipalId("ada"), token_id="t", pin="mine")

    silent = read_context({"mcp-session-id": "s-legacy"}, {}, caller=caller)
    naming = read_context({"mcp-session-id": "s-legacy"}, {"flyball/session": "s"}, caller=caller)

    assert (silent.session_name, naming.session_name) == (None, "s")

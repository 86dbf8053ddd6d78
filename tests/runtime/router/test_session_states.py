"""What is remembered of sessions, and that no mark of one gives way to others."""

import pytest

from governor.ids import SessionId
from runtime.router.session_states import MARKS_MAX, SESSIONS_MAX, SessionStates


@pytest.mark.requirement("router.explores-within-bounds")
def test_a_mark_outlasts_whatever_else_is_remembered_of_its_session() -> None:
    states = SessionStates()
    states.mark(SessionId("marked"))

    for number in range(2 * SESSIONS_MAX):
        states.of(SessionId(f"other_{number}"), None)

    assert states.is_marked(SessionId("marked"))
    assert not states.is_marked(SessionId("other_1"))
    assert MARKS_MAX > 50 * SESSIONS_MAX


@pytest.mark.requirement("router.explores-within-bounds")
def test_where_there_is_no_room_for_marks_nothing_is_tried_out_on_anybody() -> None:
    states = SessionStates(marks_max=3)
    for number in range(5):
        states.mark(SessionId(f"marked_{number}"))

    assert all(states.is_marked(SessionId(f"marked_{number}")) for number in range(5))
    assert states.is_marked(SessionId("new"))

"""The bounded memory of where sessions are at home."""

from governor.ids import SessionId, TierName
from governor.providing.affinity import Home, Place
from runtime.model_gateway.attempts.homes import SessionHomes


def home(calls: int = 1) -> Home:
    place = Place(provider="lab", model="small-1", key=0)
    return Home(tier=TierName("low"), place=place, warm_tokens=0, calls=calls, at_ms=0)


def test_a_session_is_found_at_its_last_home() -> None:
    homes = SessionHomes()
    homes.note(SessionId("ses_1"), home(1))
    homes.note(SessionId("ses_1"), home(2))

    assert homes.of(SessionId("ses_1")) == home(2)
    assert homes.of(SessionId("ses_2")) is None


def test_those_that_were_quiet_for_longest_are_forgotten_first() -> None:
    homes = SessionHomes(sessions_max=2)
    for name in ("ses_1", "ses_2", "ses_1", "ses_3"):
        homes.note(SessionId(name), home())

    assert len(homes) == 2
    assert homes.of(SessionId("ses_2")) is None

"""How each session stands when a tier is chosen, from the calls that this process saw of it."""

from collections import OrderedDict, deque
from dataclasses import dataclass, replace

from governor.call import CallRecord
from governor.ids import SessionId, TurnId
from governor.turn_progress import Answer
from memory_store.router_log import TurnSign
from runtime.router.features import NO_STATE, SessionStanding

SESSIONS_MAX = 4_096
SIGNS_MAX = 4_096
# A mark is a promise to a client: none gives way to another, and where there is no room for one
# more, nothing is tried out on anybody.
MARKS_MAX = 250_000
# What the tools of a turn tell of the model call before them; they are weak signs, and may be
# the tool's fault: an answer that is new, one that was seen before, a failure, a loop.
_SIGN_OF = {Answer.NEW: 0.7, Answer.SEEN: 0.5, Answer.FAILED: 0.3}
_LOOPING = 0.1
_SIGN_WEIGHT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A session as it stands, with its last turn and the worst sign of that."""

    state: SessionStanding
    turn: TurnId | None = None
    sign: float = 1.0


class SessionStates:
    """Remembers the sessions that were seen last, and what their tools told meanwhile."""

    def __init__(self, *, is_shared: bool = False, marks_max: int = MARKS_MAX) -> None:
        """Know nobody; where it `is_shared`, tools may be called here and models elsewhere."""
        self._is_shared = is_shared
        self._marks_max = marks_max
        self._marked: set[SessionId] = set()
        self._sessions: OrderedDict[SessionId, _Seen] = OrderedDict()
        self._signs: deque[TurnSign] = deque(maxlen=SIGNS_MAX)

    def of(self, session: SessionId, turn: TurnId | None) -> SessionStanding:
        """Return how a session stands at the beginning of a call of this turn."""
        seen = self._seen(session)
        state = seen.state
        if turn is None or turn != seen.turn:
            state = replace(state, turn=state.turn + 1)
        self._keep(session, replace(seen, state=state, turn=turn, sign=1.0))
        return state

    def mark(self, session: SessionId) -> None:
        """Let nothing be tried out on a session as long as this process runs."""
        if len(self._marked) < self._marks_max:
            self._marked.add(session)

    def is_marked(self, session: SessionId) -> bool:
        """Tell whether a session was marked, or may have been when there was no more room."""
        return session in self._marked or len(self._marked) >= self._marks_max

    def signs_of(self, session: SessionId) -> tuple[int, int]:
        """Return the failed tool calls of a session and its signals of loops."""
        state = self._seen(session).state
        return state.errors, state.loop_signals

    def note_model(self, session: SessionId, *, rank: int, tokens: int, has_failed: bool) -> None:
        """Take note of a model call that ended; `rank` is the place of its tier."""
        seen = self._seen(session)
        state = replace(
            seen.state,
            tokens_so_far=seen.state.tokens_so_far + tokens,
            last_tier_rank=rank,
            last_tier_failed=has_failed,
        )
        self._keep(session, replace(seen, state=state))

    def note_tool(self, record: CallRecord, brought: Answer, *, is_looping: bool) -> None:
        """Take note of a tool call that ended, and of what that tells of its turn."""
        session = record.chain.session
        if session not in self._sessions and not self._is_shared:
            return
        seen = self._seen(session)
        state = replace(
            seen.state,
            errors=seen.state.errors + (brought is Answer.FAILED),
            loop_signals=seen.state.loop_signals + is_looping,
            last_tier_failed=brought is Answer.FAILED or is_looping,
        )
        sign = _LOOPING if is_looping else _SIGN_OF[brought]
        is_news = record.turn is not None and (record.turn != seen.turn or sign < seen.sign)
        if record.turn is not None and is_news:
            self._signs.append(
                TurnSign(
                    session=session,
                    turn=record.turn,
                    score=sign,
                    weight=_SIGN_WEIGHT,
                    seen_at_ms=record.ended_at_ms,
                )
            )
        worst = min(sign, seen.sign) if record.turn == seen.turn else sign
        self._keep(session, replace(seen, state=state, turn=record.turn or seen.turn, sign=worst))

    def taken_signs(self) -> tuple[TurnSign, ...]:
        """Return what tools told since the last time; what was too much is not among it."""
        signs = tuple(self._signs)
        self._signs.clear()
        return signs

    def _seen(self, session: SessionId) -> _Seen:
        return self._sessions.get(session) or _Seen(state=NO_STATE)

    def _keep(self, session: SessionId, seen: _Seen) -> None:
        self._sessions[session] = seen
        self._sessions.move_to_end(session)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)

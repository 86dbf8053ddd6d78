"""One session under turn control, as this process knows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from governor.ids import TaskClass, TurnId
from governor.scope import ScopeChain
from governor.turn_control import TurnStanding
from governor.turn_policy import TurnMode, TurnTerms
from governor.turn_progress import Trail
from governor.turns import Outlook
from tool_gateway.ports import TurnsKnown


@dataclass(slots=True)
class _Turn:
    """A turn that was entered: how many calls wait to be admitted in it, and whether one was."""

    claims: int = 0
    is_stored: bool = False


@dataclass(slots=True)
class TurnSession:
    """What turn control remembers of a session between two calls.

    A turn counts from the moment in which its first call asks for admission: otherwise two turns
    that begin side by side would both see the last place free. One whose calls were all denied
    is taken back. `model_turn` is that of the last request for a model, None before the first:
    what a model asked for and nobody named a turn for belongs to it.
    """

    chain: ScopeChain
    task_class: TaskClass
    terms: TurnTerms
    base: int | None
    outlook: Outlook | None = None
    extended: int = 0
    extensions: int = 0
    cost_microusd: int = 0
    trail: Trail = field(default_factory=Trail)
    reminded: set[int] = field(default_factory=set)
    was_cut: bool = False
    model_turn: TurnId | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    _turns: dict[TurnId, _Turn] = field(default_factory=dict)

    @property
    def is_limited(self) -> bool:
        """Tell whether the session's turns are counted against a limit."""
        return self.terms.mode is not TurnMode.UNLIMITED

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing of the session waits to be admitted."""
        return not any(turn.claims for turn in self._turns.values())

    @property
    def standing(self) -> TurnStanding:
        """Return where the session stands."""
        return TurnStanding(
            base=self.base,
            used=len(self._turns),
            extended=self.extended,
            extensions=self.extensions,
        )

    @property
    def last_turn(self) -> TurnId | None:
        """Return the turn that was entered last, None before the first."""
        return next(reversed(self._turns), None)

    def knows(self, turn: TurnId | None) -> bool:
        """Tell whether a turn was entered before."""
        return turn in self._turns

    def enter(self, turn: TurnId) -> None:
        """Count a turn, or ride on it, until `leave` says what came of the call."""
        self._turns.setdefault(turn, _Turn()).claims += 1

    def leave(self, turn: TurnId, *, is_stored: bool) -> None:
        """Take note of whether the call was admitted; a turn without any such call is free."""
        entered = self._turns[turn]
        entered.claims -= 1
        entered.is_stored |= is_stored
        if not entered.claims and not entered.is_stored:
            del self._turns[turn]

    def recall(self, known: TurnsKnown) -> None:
        """Take over all that is stored, when this process meets the session."""
        self.learn(known)
        self.cost_microusd = known.cost_microusd
        self.model_turn = known.model_turn
        for number, printed in enumerate(known.prints):
            if number == known.fresh_from:
                self.trail.restart()
            self.trail.note(printed)
        if known.fresh_from >= len(known.prints):
            self.trail.restart()

    def learn(self, known: TurnsKnown) -> None:
        """Take over what is stored of turns and extensions, others' among them."""
        for turn in known.turns if self.is_limited else ():
            self._turns.setdefault(turn, _Turn()).is_stored = True
        if known.extensions != self.extensions:
            self.extended, self.extensions = known.extended, known.extensions
            self._go_on()

    def note_extension(self, turns: int) -> None:
        """Take note of turns that the session was given."""
        self.extended += turns
        self.extensions += 1
        self._go_on()

    def _go_on(self) -> None:
        self.was_cut = False
        self.trail.restart()
        self.reminded.clear()


def turns_json(session: TurnSession) -> Mapping[str, object]:
    """Return how a session stands, as `_meta["flyball/turns"]` shows it."""
    standing = session.standing
    return {
        "mode": session.terms.mode.value,
        "task_class": session.task_class,
        "limit": standing.limit,
        "used": standing.used if session.is_limited else None,
        "remaining": standing.remaining,
        "extended": standing.extended,
        "extensions": standing.extensions,
    }

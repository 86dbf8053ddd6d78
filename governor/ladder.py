"""What is done to a command that needs more memory than it has, one rung after another.

Throttling alone is a trap: where nothing can be swapped out, a command above its throttle point
gets almost no processor time, for ever, and no counter calls that an error. So a watchdog compares
what it computes with what it is held back, and whoever makes no progress climbs to the next rung:
it is frozen, somebody is asked, and at the end the call is killed, never its session.

The kernel's hard limit stands beside all this from the start. No rung lifts it beyond what was
granted, so that a decision that comes late costs the command something, and nobody else.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from governor.errors import InvalidPolicyError

_PERMILLE = 1_000
# Of the time between two looks, what a command must have computed to count as going on, and
# for how much of it the kernel must say that all of it waited for memory to count as stuck.
_PROGRESS_PERMILLE = 50
_WAITING_PERMILLE = 800
# Whoever is held back because of files alone, which are read and written as fast as the disks let
# them, is no case for this: what cannot be taken back must be near the throttle point.
_NEAR_PERMILLE = 875


class Rung(StrEnum):
    """Where a command stands. SPENT has nothing left but its hard limit."""

    FREE = "free"
    THROTTLED = "throttled"
    ASKING = "asking"
    SPENT = "spent"
    ENDED = "ended"


class Sight(StrEnum):
    """What a look at a command, or an answer, comes to.

    STALLED_EARLY is a stall at a throttle point that was only expected to do. HOPELESS is a stall
    and UNHEARD a full memory where nobody can be asked. LEFT and DROPPED are what the policy makes
    of a question without an answer.
    """

    CALM = "calm"
    PRESSED = "pressed"
    STALLED_EARLY = "stalled_early"
    STALLED = "stalled"
    FULL = "full"
    HOPELESS = "hopeless"
    UNHEARD = "unheard"
    RAISED = "raised"
    CANCELLED = "cancelled"
    LEFT = "left"
    DROPPED = "dropped"


class Act(StrEnum):
    """What the adapter does, in the order given. YIELD leaves the rest to the hard limit."""

    SLOW = "slow"
    EASE = "ease"
    LIFT = "lift"
    FREEZE = "freeze"
    ASK = "ask"
    RAISE = "raise"
    THAW = "thaw"
    YIELD = "yield"
    KILL = "kill"


_Step = tuple[Rung, tuple[Act, ...]]
_ASK: _Step = (Rung.ASKING, (Act.FREEZE, Act.ASK))
_KILL: _Step = (Rung.ENDED, (Act.KILL,))
_YIELD: _Step = (Rung.SPENT, (Act.YIELD,))
ANSWERS = frozenset({Sight.RAISED, Sight.CANCELLED, Sight.LEFT, Sight.DROPPED})
_SEEN = tuple(sight for sight in Sight if sight not in ANSWERS)


def _stays(rung: Rung, *sights: Sight) -> dict[tuple[Rung, Sight], _Step]:
    return {(rung, sight): (rung, ()) for sight in sights}


# Whole: each rung knows every sight. An answer to a question that does not stand changes nothing.
STEPS: dict[tuple[Rung, Sight], _Step] = {
    **_stays(Rung.FREE, *ANSWERS, Sight.CALM),
    (Rung.FREE, Sight.PRESSED): (Rung.THROTTLED, (Act.SLOW,)),
    (Rung.FREE, Sight.STALLED_EARLY): (Rung.THROTTLED, (Act.SLOW, Act.LIFT)),
    (Rung.FREE, Sight.STALLED): _ASK,
    (Rung.FREE, Sight.FULL): _ASK,
    (Rung.FREE, Sight.HOPELESS): _KILL,
    (Rung.FREE, Sight.UNHEARD): _YIELD,
    **_stays(Rung.THROTTLED, *ANSWERS, Sight.PRESSED),
    (Rung.THROTTLED, Sight.CALM): (Rung.FREE, (Act.EASE,)),
    (Rung.THROTTLED, Sight.STALLED_EARLY): (Rung.THROTTLED, (Act.LIFT,)),
    (Rung.THROTTLED, Sight.STALLED): _ASK,
    (Rung.THROTTLED, Sight.FULL): _ASK,
    (Rung.THROTTLED, Sight.HOPELESS): _KILL,
    (Rung.THROTTLED, Sight.UNHEARD): _YIELD,
    **_stays(Rung.ASKING, *_SEEN),
    (Rung.ASKING, Sight.RAISED): (Rung.FREE, (Act.RAISE, Act.EASE, Act.THAW)),
    (Rung.ASKING, Sight.CANCELLED): _KILL,
    (Rung.ASKING, Sight.LEFT): (Rung.SPENT, (Act.YIELD, Act.THAW)),
    (Rung.ASKING, Sight.DROPPED): _KILL,
    **_stays(Rung.SPENT, *ANSWERS, *_SEEN),
    (Rung.SPENT, Sight.STALLED): _KILL,
    (Rung.SPENT, Sight.HOPELESS): _KILL,
    **_stays(Rung.ENDED, *Sight),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderTerms:
    """When each rung is reached.

    Above `throttle_permille` of its limit a command is throttled, above `full_permille` it is
    taken for full where the kernel does not say so itself. A command that is held back and makes
    no progress for `stall_ms` is stuck. It can be raised `raises_max` times.

    Raises:
        InvalidPolicyError: the rungs are not in order.
    """

    throttle_permille: int = 800
    full_permille: int = 950
    stall_ms: int = 2_000
    raises_max: int = 3

    def __post_init__(self) -> None:
        """Refuse rungs out of order."""
        if not 0 < self.throttle_permille <= self.full_permille <= _PERMILLE:
            message = (
                f"throttle_percent = {self.throttle_permille / 10:g} must be above 0 and not above "
                f"full_percent = {self.full_permille / 10:g}, which may be 100 at the most"
            )
            raise InvalidPolicyError(message)

    def throttle_bytes(self, limit_bytes: int) -> int:
        """Return where a command with that limit is throttled at the latest."""
        return limit_bytes * self.throttle_permille // _PERMILLE

    def full_bytes(self, limit_bytes: int) -> int:
        """Return from where on a command with that limit is taken for full."""
        return limit_bytes * self.full_permille // _PERMILLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is seen of a command at one instant; what the host cannot say is None.

    `used_bytes` leaves out what the kernel can take back from it at once. `is_out_of_room` says
    that the kernel itself keeps a process waiting at the limit. `high_events` counts how often it
    was held back at `high_bytes`, which may be no more than where it was expected to stay below;
    `waited_us` is how long all of it waited for memory, `user_us`
    what it has computed itself: the kernel's own work for it is no progress.
    """

    at_ms: int
    used_bytes: int
    limit_bytes: int
    high_bytes: int | None = None
    high_is_expected: bool = False
    is_out_of_room: bool | None = None
    high_events: int | None = None
    waited_us: int | None = None
    user_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a command stands: its rung, since when it is watched, how often it was raised.

    `path` is every rung that it has stood on, in the order of the first times.
    """

    rung: Rung = Rung.FREE
    watched: Look | None = None
    raises: int = 0
    path: tuple[Rung, ...] = field(default=(Rung.FREE,))


def stepped(
    standing: Standing,
    look: Look,
    terms: LadderTerms,
    *,
    can_be_raised: bool,
    is_held: bool = False,
) -> tuple[Standing, tuple[Act, ...]]:
    """Return where a command stands after a look, and what to do.

    `can_be_raised` says that there is somebody to ask and something to give. One that `is_held`
    by others, who froze it, neither climbs nor counts as stuck.
    """
    if is_held:
        return replace(standing, watched=None), ()
    sight = sight_of(
        standing,
        look,
        terms,
        can_be_raised=can_be_raised and standing.raises < terms.raises_max,
    )
    moved, acts = _moved(standing, sight)
    return replace(moved, watched=_watched(standing, look, sight, acts)), acts


def answered(standing: Standing, answer: Sight) -> tuple[Standing, tuple[Act, ...]]:
    """Return where a command stands after the answer to its question, and what to do."""
    assert answer in ANSWERS, "anything else is seen, not answered"
    moved, acts = _moved(standing, answer)
    raises = standing.raises + (Act.RAISE in acts)
    return replace(moved, watched=None, raises=raises), acts


def sight_of(standing: Standing, look: Look, terms: LadderTerms, *, can_be_raised: bool) -> Sight:
    """Return what a look at a command comes to."""
    if _is_stuck(standing.watched, look, terms):
        if look.high_is_expected:
            return Sight.STALLED_EARLY
        return Sight.STALLED if can_be_raised else Sight.HOPELESS
    if _is_full(look, terms):
        return Sight.FULL if can_be_raised else Sight.UNHEARD
    return Sight.PRESSED if _is_pressed(standing.watched, look) else Sight.CALM


def _moved(standing: Standing, sight: Sight) -> tuple[Standing, tuple[Act, ...]]:
    rung, acts = STEPS[standing.rung, sight]
    path = standing.path if rung in standing.path else (*standing.path, rung)
    return replace(standing, rung=rung, path=path), acts


def _watched(standing: Standing, look: Look, sight: Sight, acts: tuple[Act, ...]) -> Look | None:
    """Return the look that progress is measured from: the first under pressure, then each anew."""
    if standing.rung is Rung.ASKING:
        return None
    watched = standing.watched
    if watched is None or sight is Sight.CALM or Act.LIFT in acts:
        return look
    return look if _has_gone_on(watched, look) else watched


def _is_full(look: Look, terms: LadderTerms) -> bool:
    if look.is_out_of_room is not None:
        return look.is_out_of_room
    return look.used_bytes >= terms.full_bytes(look.limit_bytes)


def _is_pressed(watched: Look | None, look: Look) -> bool:
    """Tell whether a command is held back: it is above its throttle point, or was just now."""
    if look.high_bytes is None:
        return False
    return look.used_bytes >= look.high_bytes or _grew(
        None if watched is None else watched.high_events, look.high_events
    )


def _is_stuck(watched: Look | None, look: Look, terms: LadderTerms) -> bool:
    """Tell whether a command was held back all the time and computed next to nothing."""
    if watched is None or look.at_ms - watched.at_ms < terms.stall_ms:
        return False
    if _has_gone_on(watched, look):
        return False
    if look.high_bytes is None or look.used_bytes < look.high_bytes * _NEAR_PERMILLE // _PERMILLE:
        return False
    waited_us = _difference(watched.waited_us, look.waited_us)
    if waited_us is not None and waited_us >= _share(watched, look, _WAITING_PERMILLE):
        return True
    return _grew(watched.high_events, look.high_events)


def _has_gone_on(watched: Look, look: Look) -> bool:
    computed_us = _difference(watched.user_us, look.user_us)
    # Nobody is called stuck whose progress nobody can see.
    return computed_us is None or (
        look.at_ms > watched.at_ms and computed_us >= _share(watched, look, _PROGRESS_PERMILLE)
    )


def _share(watched: Look, look: Look, permille: int) -> int:
    """Return that share of the time between two looks, in microseconds."""
    return (look.at_ms - watched.at_ms) * permille


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _grew(before: int | None, after: int | None) -> bool:
    grown = _difference(before, after)
    return grown is not None and grown > 0

"""Reflects on sessions that ended, for the playbooks of their classes of tasks."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from memory_store.lessons.ended import EndedSession
from memory_store.store import Store
from runtime.memory.house.allowance import Allowance, Spent
from runtime.memory.house.model import HouseModel
from runtime.memory.lessons.playbooks import SESSIONS_MAX, AskModel, Place, PlaybookDesk
from runtime.memory.quiet.night import READ_TOKENS_MAX, IsIdle, Night, after
from tool_gateway.ports import Clock

# Of sessions that ended, in one round and in one reflection; the rest waits for the next.
_NEW_MAX = 100
_NEW_AT_ONCE = 20
_LOOK_BACK_MS = 7 * 86_400_000

PlaceOf = Callable[[EndedSession], Awaitable[Place]]


class Reflecting:
    """Reflects on each session once."""

    def __init__(
        self,
        store: Store,
        playbooks: PlaybookDesk,
        allowance: Allowance,
        *,
        place_of: PlaceOf,
        is_idle: IsIdle,
        clock: Clock,
        model: HouseModel | None,
    ) -> None:
        """Take the parts; `place_of` says which playbook a session tells of."""
        self._store = store
        self._playbooks = playbooks
        self._allowance = allowance
        self._place_of = place_of
        self._is_idle = is_idle
        self._clock = clock
        self._model = model
        self._until_ms: int | None = None

    async def work(self, night: Night) -> Night:
        """Return the round with what was learned of sessions."""
        since_ms = self._until_ms
        if since_ms is None:
            # What ended long before the start was reflected on then, or never will be.
            since_ms = max(0, self._clock.now_ms() - _LOOK_BACK_MS)
        new = _first_of(await self._store.ended.since(since_ms))
        if not new:
            return night
        # They are looked at together with those of a while before: what two have met repeats.
        back_ms = max(0, since_ms - _LOOK_BACK_MS)
        earlier = await self._store.ended.before(since_ms, since_ms=back_ms)
        groups = await self._by_place(new)
        beside = await self._by_place(earlier)
        for place, sessions in groups.items():
            if not self._is_idle():
                return replace(night, was_disturbed=True)
            night = await self._reflect_in(place, sessions, beside.get(place, []), night)
        self._until_ms = new[-1].ended_at_ms
        return night

    async def _by_place(self, ended: Sequence[EndedSession]) -> dict[Place, list[EndedSession]]:
        groups: dict[Place, list[EndedSession]] = {}
        for one in ended:
            groups.setdefault(await self._place_of(one), []).append(one)
        return groups

    async def _reflect_in(
        self,
        place: Place,
        new: Sequence[EndedSession],
        earlier: Sequence[EndedSession],
        night: Night,
    ) -> Night:
        name = f"reflect {place.namespace} {place.task_class}"
        # Another sidecar, or this one before it was started anew, may have done it.
        begun_ms = await self._store.questions.last_work(place.tenant, name)
        if begun_ms > new[-1].ended_at_ms:
            return night
        for start in range(0, len(new), _NEW_AT_ONCE):
            some = new[start : start + _NEW_AT_ONCE]
            told = (*some, *new[:start][::-1], *earlier)[:SESSIONS_MAX]
            do = partial(self._reflect_on, place, told)
            spent = await self._allowance.work(
                place.tenant, "reflect", read_tokens=READ_TOKENS_MAX, do=do, kept_as=name
            )
            night = after(night, spent, reflected=0 if spent is None else spent.made)
        return night

    async def _reflect_on(self, place: Place, sessions: Sequence[EndedSession]) -> Spent:
        ask: AskModel | None = None
        if self._model is not None:
            ask = partial(
                self._model.ask,
                chain=self._allowance.chain(place.tenant),
                session_name=self._allowance.session_name(place.tenant),
            )
        found = await self._playbooks.reflect(place, sessions, ask=ask)
        return Spent(read_tokens=found.read_tokens, made=found.added)


def _first_of(ended: Sequence[EndedSession]) -> Sequence[EndedSession]:
    """Return as many as one round takes, with all that ended in the moment of the last."""
    if len(ended) <= _NEW_MAX:
        return ended
    last_ms = ended[_NEW_MAX - 1].ended_at_ms
    return [one for one in ended if one.ended_at_ms <= last_ms]

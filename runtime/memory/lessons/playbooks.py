"""Playbooks at work: shown to agents, and written after sessions by rule or by a model."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from governor.call import CallStatus
from governor.experience.experience import Experience
from governor.experience.kinds import Standing, TrustLane, least_trusted
from governor.experience.playbook import (
    Delta,
    Playbook,
    adding,
    harmful_ones,
    merged,
    promoting,
    voting,
)
from governor.experience.playbook_text import near_duplicates, pieces_of, shown_within
from governor.experience.reflection import (
    Recovery,
    Repeated,
    Step,
    recoveries_in,
    repeated_in,
    said_of,
    votes_on,
)
from governor.experience.rendering import Role, Shown
from governor.experience.tokens import tokens_of
from governor.ids import (
    CallId,
    ExperienceId,
    NamespaceId,
    PrincipalId,
    SessionId,
    TaskClass,
    TenantId,
)
from governor.retrieval.analysis import query_terms
from governor.target import CallKind
from memory_store.audit import Actor
from memory_store.calls import CallView
from memory_store.errors import NotFoundError
from memory_store.lessons.ended import EndedSession
from memory_store.lessons.playbooks import KeptPlaybook, Merged
from memory_store.paging import Page
from runtime.memory.lessons.delta_words import TOLD, asked_of, curated
from tool_gateway import telemetry
from tool_gateway.ports import Clock

SESSIONS_MAX = 30
_CALLS_MAX = 200
_TOOLS = "tools"
_HOUSE = "house"
_PROMPT_CHARS_MAX = 24_000
_FAILED = frozenset(
    {
        CallStatus.TOOL_ERROR,
        CallStatus.TIMED_OUT,
        CallStatus.UPSTREAM_FAILED,
        CallStatus.LIMIT_HIT,
    }
)


class Playbooks(Protocol):
    """Where playbooks are kept."""

    async def get(
        self, tenant: TenantId, namespace: NamespaceId, task_class: TaskClass
    ) -> KeptPlaybook:
        """Return the playbook of a class of tasks."""
        ...

    async def merge(
        self,
        deltas: tuple[Delta, ...],
        *,
        tenant: TenantId,
        namespace: NamespaceId,
        task_class: TaskClass,
        now_ms: int,
    ) -> Merged:
        """Return what became of deltas."""
        ...


class Calls(Protocol):
    """Which calls sessions made."""

    async def page(
        self,
        *,
        tenant: TenantId | None = None,
        session: SessionId | None = None,
        agent: PrincipalId | None = None,
        status: CallStatus | None = None,
        name: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[CallView]:
        """Return calls, the one that ended last first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a playbook is: the class of tasks and the namespace of a tenant."""

    tenant: TenantId
    namespace: NamespaceId
    task_class: TaskClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflected:
    """What came of a reflection: deltas that are new, and what was refused of a model's answer.

    `read_tokens` are those of what sessions met.
    """

    added: int
    refused: int
    has_asked: bool
    read_tokens: int = 0


Kept = Callable[[EndedSession], Awaitable[tuple[Experience, ...]]]
SawUntrusted = Callable[[EndedSession], Awaitable[bool]]
# Asks a model of the configured tier: what it is told, what it is shown; None without an answer.
AskModel = Callable[[str, str], Awaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """One session as it is reflected on; `lanes` are those of all its words."""

    ended: EndedSession
    recoveries: tuple[Recovery, ...]
    sources: tuple[ExperienceId, ...]
    lanes: tuple[TrustLane, ...]
    is_misled: bool


class PlaybookDesk:
    """Shows playbooks, and writes them after what sessions met."""

    def __init__(
        self,
        book: Playbooks,
        calls: Calls,
        *,
        kept: Kept,
        saw_untrusted: SawUntrusted,
        clock: Clock,
        key: bytes,
        deltas_max: int = 8,
    ) -> None:
        """Take where playbooks, calls and results are, and who knows what sessions have seen.

        `key` is the house's secret that what a model is shown is marked with.
        """
        self._key = key
        self._book = book
        self._calls = calls
        self._kept = kept
        self._saw_untrusted = saw_untrusted
        self._clock = clock
        self._deltas_max = deltas_max

    async def shown(
        self, places: Sequence[Place], *, lanes: Sequence[TrustLane], tokens_max: int
    ) -> tuple[Shown, ...]:
        """Return the best bullets of playbooks that fit, as pieces that are yet to be rendered.

        Only those of `lanes` are among them.
        """
        playbook = Playbook()
        for place in places:
            kept = await self._of(place)
            asked = {name: one for name, one in kept.playbook.bullets.items() if one.lane in lanes}
            playbook = Playbook(bullets={**asked, **playbook.bullets})
        return pieces_of(shown_within(playbook, tokens_max=tokens_max, tokens_of=tokens_of))

    async def promote(self, place: Place, bullet: str, *, by: Actor) -> Merged:
        """Take a bullet over as an operator's word; whoever calls this is one.

        Raises:
            NotFoundError: there is no such bullet.
        """
        kept = await self._of(place)
        found = kept.playbook.bullets.get(bullet)
        if found is None or not found.is_shown:
            message = f"there is no bullet {bullet} in this playbook"
            raise NotFoundError(message)
        return await self._merge(
            place, promoting(found, at_ms=self._clock.now_ms(), by=f"admin:{by.name}")
        )

    async def reflect(
        self, place: Place, ended: Sequence[EndedSession], *, ask: AskModel | None = None
    ) -> Reflected:
        """Write what sessions of a class have taught: by rule, then by a model if there is one.

        Raises:
            StoreError: something cannot be read or kept; nothing is kept by halves.
        """
        told = [await self._told(one) for one in ended[:SESSIONS_MAX]]
        kept = await self._of(place)
        now_ms = self._clock.now_ms()
        deltas = _by_rule(told, now_ms=now_ms)
        refused, has_asked = 0, False
        if ask is not None and told:
            found = await self._by_model(ask, told, kept.playbook, now_ms=now_ms)
            has_asked = found is not None
            deltas += () if found is None else found[0]
            refused = 0 if found is None else found[1]
        deltas += _votes(merged(kept.playbook, deltas), told)
        after = merged(kept.playbook, deltas)
        new = [after.bullets[one] for one in after.bullets if one not in kept.playbook.bullets]
        deltas += near_duplicates(after, new, words_of=query_terms, at_ms=now_ms, by=_HOUSE)
        deltas += harmful_ones(after, at_ms=now_ms, by=_HOUSE)
        result = await self._merge(place, deltas)
        return Reflected(
            added=result.added,
            refused=refused + result.refused,
            has_asked=has_asked,
            read_tokens=sum(tokens_of(_happened(one, 0).text) for one in told),
        )

    async def _by_model(
        self, ask: AskModel, told: Sequence[_Told], playbook: Playbook, *, now_ms: int
    ) -> tuple[tuple[Delta, ...], int] | None:
        bullets = playbook.shown
        happened = [_happened(one, place) for place, one in enumerate(told, start=1)]
        shown = asked_of(happened, bullets, chars_max=_PROMPT_CHARS_MAX, key=self._key)
        text = await ask(TOLD, shown)
        if text is None:
            return None
        # Whatever it was shown may have told it what to say, and what to cite.
        lanes = [lane for one in told for lane in one.lanes] + [one.lane for one in bullets]
        found = curated(
            text,
            playbook,
            lane=least_trusted((TrustLane.AGENT, *lanes)),
            sources=tuple(dict.fromkeys(source for one in told for source in one.sources)),
            by=_HOUSE,
            at_ms=now_ms,
            most=self._deltas_max,
        )
        for why in found.refused:
            telemetry.count_failure(f"playbook_delta_{why}")
        return found.deltas, len(found.refused)

    async def _told(self, ended: EndedSession) -> _Told:
        page = await self._calls.page(tenant=ended.tenant, session=ended.session, limit=_CALLS_MAX)
        results = {
            one.provenance.call_id: one
            for one in await self._kept(ended)
            if one.standing is Standing.ACTIVE
        }
        views = [view for view in reversed(page.items) if view.record.kind is CallKind.TOOL]
        failed = [view for view in views if view.record.status in _FAILED]
        used = [results[view.record.call_id] for view in failed if view.record.call_id in results]
        is_misled = await self._saw_untrusted(ended)
        # Errors are told in the words of records, too, of which nobody knows whose they are.
        worst = (TrustLane.WEB,) if is_misled else (TrustLane.TOOL,)
        return _Told(
            ended=ended,
            recoveries=recoveries_in([_step(view, results) for view in views]),
            sources=tuple(one.experience_id for one in used),
            lanes=(*worst, *(one.lane for one in used)),
            is_misled=is_misled,
        )

    async def _of(self, place: Place) -> KeptPlaybook:
        return await self._book.get(place.tenant, place.namespace, place.task_class)

    async def _merge(self, place: Place, deltas: Sequence[Delta]) -> Merged:
        return await self._book.merge(
            tuple(deltas),
            tenant=place.tenant,
            namespace=place.namespace,
            task_class=place.task_class,
            now_ms=self._clock.now_ms(),
        )


def _step(view: CallView, results: dict[CallId | None, Experience]) -> Step:
    record = view.record
    error: str | None = None
    if record.status in _FAILED:
        result = results.get(record.call_id)
        error = (None if result is None else result.summary) or record.detail or record.status.value
    return Step(tool=record.name, error=error, arguments_hash=record.arguments_hash)


def _by_rule(told: Sequence[_Told], *, now_ms: int) -> list[Delta]:
    by_session = {str(one.ended.session): one for one in told}
    found = repeated_in((one.ended.session, one.recoveries) for one in told)
    return [_of_repeated(one, [by_session[name] for name in one.sessions], now_ms) for one in found]


def _of_repeated(repeated: Repeated, seen: Sequence[_Told], now_ms: int) -> Delta:
    recovery = repeated.recovery
    sources = tuple(dict.fromkeys(source for one in seen for source in one.sources))
    # Whose words the error is of: another tool's must not hide it by a near copy.
    return adding(
        said_of(recovery),
        section=_TOOLS,
        lane=least_trusted(tuple(lane for one in seen for lane in one.lanes)),
        at_ms=now_ms,
        by=f"tool:{recovery.tool}",
        sources=sources,
    )


def _votes(playbook: Playbook, told: Sequence[_Told]) -> list[Delta]:
    """Return what sessions say of bullets; those that were perhaps misled say nothing."""
    bullets = [(one.bullet, one.text) for one in playbook.shown if one.section == _TOOLS]
    return [
        voting(
            bullet,
            is_helpful=is_helpful,
            by=one.ended.agent,
            at_ms=one.ended.ended_at_ms,
            why=one.ended.session,
        )
        for one in told
        if not one.is_misled
        for bullet, is_helpful in votes_on(bullets, one.recoveries)
    ]


def _happened(told: _Told, place: int) -> Shown:
    word = {True: "went well", False: "failed", None: "ended"}[told.ended.is_solved]
    met = "; ".join(said_of(one) for one in told.recoveries) or "no errors of tools"
    return Shown(
        index=f"session-{place}",
        role=Role.DATA,
        lane=least_trusted(told.lanes),
        text=f"The session {word}: {met}",
    )

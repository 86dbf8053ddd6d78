"""The store and the machine, in the shapes that the gateway asks for."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from governor.admission import AdmissionRequest
from governor.amounts import Amounts
from governor.approval import Approval, Asked
from governor.call import CallRecord
from governor.denial import Denied
from governor.errors import InvalidBudgetError, InvalidScopeError
from governor.events import KeyReused, Released, Replayed, Reserved, Settled
from governor.flow.labels import Label
from governor.ids import (
    ApprovalId,
    ArchiveId,
    CallId,
    ReservationId,
    SessionId,
    TaskClass,
    TenantId,
    ToolName,
    UpstreamName,
)
from governor.scope import ScopeChain
from governor.turn_control import FinishedSession
from governor.turn_policy import TurnMode
from governor.usage import Usage
from memory_store.accounts import BalanceView
from memory_store.approvals import ApprovalBook
from memory_store.archive import Archive
from memory_store.audit import Actor
from memory_store.calls import CallLog
from memory_store.errors import (
    AlreadyExistsError,
    ArchiveCorruptError,
    ArchiveNotFoundError,
    ArchiveTooLargeError,
    NotFoundError,
    SessionEndedError,
    SessionOwnerError,
    StoreOverloadedError,
    StoreUnavailableError,
    UnstorableError,
    VersionConflictError,
)
from memory_store.flows import FlowBook
from memory_store.ledger import SqlLedger
from memory_store.manifests import ApprovedManifest, ManifestBook
from memory_store.sessions import SessionBook
from memory_store.turn_book import TurnBook
from runtime.ledger_words import ledger_words
from runtime.sub_sessions import SubSessions
from tool_gateway.discovery.answers import found_in, query_in
from tool_gateway.errors import (
    ArchiveDamagedError,
    ArchiveMissError,
    ArchiveUnavailableError,
    SubSessionRefusedError,
)
from tool_gateway.ports import (
    Archived,
    FlowKnown,
    ManifestKnown,
    PastCall,
    Slice,
    TurnsKnown,
)

# Who freezes a session that goes round in circles; the space keeps principals from the name.
LOOP_BREAKER = Actor(name="loop breaker")


class StoreLedger:
    """The store's ledger and call log as the one ledger that the gateway knows."""

    def __init__(self, *, ledger: SqlLedger, calls: CallLog) -> None:
        """Take both."""
        self._ledger = ledger
        self._calls = calls

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate on every budget of the chain, or say why not."""
        with ledger_words():
            return await self._ledger.admit(request)

    async def forward(self, reservation_id: ReservationId) -> Denied | None:
        """Mark the hold before the first upstream byte, or say why nothing may leave any more."""
        with ledger_words():
            return await self._ledger.forward(reservation_id)

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        """End the hold with what was used and keep the record."""
        with ledger_words():
            return await self._ledger.settle(reservation_id, usage, record)

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        """End the hold of a call that consumed nothing."""
        with ledger_words():
            return await self._ledger.release(reservation_id, record)

    async def record(self, record: CallRecord) -> None:
        """Keep the record of a call that was denied."""
        with ledger_words():
            await self._calls.record(record)

    async def replay_of(self, call_id: CallId) -> ArchiveId | None:
        """Return where the outcome of an ended call is kept."""
        with ledger_words():
            try:
                return (await self._calls.get(call_id)).record.archive_id
            except NotFoundError:
                return None

    async def charged_to(self, session: SessionId) -> Amounts:
        """Return what the session's calls that ended were charged."""
        with ledger_words():
            return (await self._calls.bill(session)).charged

    async def standing(self, chain: ScopeChain, *, now_ms: int) -> tuple[Mapping[str, object], ...]:
        """Return how every budget of the chain stands."""
        with ledger_words():
            views = await self._ledger.balances(
                tenant=chain.tenant, agent=chain.agent, session=chain.session, now_ms=now_ms
            )
        return tuple(balance_json(view, now_ms) for view in views)


class StoreApprovals:
    """The store's approvals as the desk that the gateway asks at."""

    def __init__(self, book: ApprovalBook) -> None:
        """Take the book."""
        self._book = book

    async def open(self, approval: Approval, *, hold_expires_at_ms: int) -> Approval:
        """Ask and keep the hold; return what is asked now."""
        with ledger_words():
            return await self._book.open(approval, hold_expires_at_ms=hold_expires_at_ms)

    async def find(self, asked: Asked, *, now_ms: int) -> Approval | None:
        """Return the question that stands, open or answered: a no as long as it could have."""
        with ledger_words():
            return await self._book.find(asked, now_ms=now_ms)

    async def get(self, approval_id: ApprovalId) -> Approval:
        """Return an approval that was opened."""
        with ledger_words():
            return await self._book.get(approval_id)

    async def take(
        self, approval_id: ApprovalId, *, now_ms: int, hold_expires_at_ms: int
    ) -> Reserved | Approval | Denied:
        """Use a yes, once, and return its hold, else why there is none."""
        with ledger_words():
            return await self._book.take(
                approval_id, now_ms=now_ms, hold_expires_at_ms=hold_expires_at_ms
            )

    async def withdraw(self, approval_id: ApprovalId, *, now_ms: int) -> Approval:
        """Give up a question that nobody has answered."""
        with ledger_words():
            return await self._book.withdraw(approval_id, now_ms=now_ms)

    async def expire_due(self, *, now_ms: int) -> int:
        """Give up what nobody answered or used in time."""
        with ledger_words():
            return await self._book.expire_due(now_ms=now_ms)

    async def given_up_with_a_hold(self) -> tuple[Approval, ...]:
        """Return the questions that are over while their hold is still kept."""
        with ledger_words():
            return await self._book.given_up_with_a_hold()


class StorePausing:
    """The store's freezing of sessions as what the loop breaker stops them by."""

    def __init__(self, sessions: SessionBook) -> None:
        """Take the sessions."""
        self._sessions = sessions

    async def pause(self, session: SessionId, *, now_ms: int) -> bool:
        """Freeze the session until it is resumed; False if none of its calls could start."""
        with ledger_words():
            try:
                paused = await self._sessions.freeze(session, by=LOOP_BREAKER, now_ms=now_ms)
            except SessionEndedError:
                return False
        return paused.before.frozen_at_ms is None


class StoreArchive:
    """The store's archive, where an agent finds what its own calls answered."""

    def __init__(self, archive: Archive) -> None:
        """Take the archive."""
        self._archive = archive

    async def put(
        self, content: bytes, *, chain: ScopeChain, call_id: CallId, media_type: str, now_ms: int
    ) -> Archived:
        """Keep `content` for the agent of `chain`."""
        try:
            entry = await self._archive.put(
                content,
                tenant=chain.tenant,
                agent=chain.agent,
                session=chain.session,
                call_id=call_id,
                media_type=media_type,
                now_ms=now_ms,
            )
        except (StoreUnavailableError, StoreOverloadedError, ArchiveTooLargeError) as error:
            raise ArchiveUnavailableError(str(error)) from error
        return Archived(
            archive_id=entry.archive_id, sha256=entry.sha256, total_bytes=entry.size_bytes
        )

    async def read(
        self, archive_id: ArchiveId, *, chain: ScopeChain, offset: int, length: int
    ) -> Slice:
        """Return a range of bytes of an entry that is intact."""
        try:
            part = await self._archive.read(
                archive_id, tenant=chain.tenant, agent=chain.agent, offset=offset, length=length
            )
        except ArchiveNotFoundError as error:
            raise ArchiveMissError from error
        except ArchiveCorruptError as error:
            raise ArchiveDamagedError from error
        except StoreUnavailableError as error:
            raise ArchiveUnavailableError from error
        return Slice(
            content=part.content,
            offset=part.offset,
            total_bytes=part.total_bytes,
            sha256=part.sha256,
        )


class StoreSubSessions:
    """An agent's sub-sessions, in the words that the gateway's tools have for them."""

    def __init__(self, sessions: SubSessions) -> None:
        """Take what the agent may do."""
        self._sessions = sessions

    async def spawn(self, parent: ScopeChain, *, name: str, limits: Amounts) -> ScopeChain | Denied:
        """Return the sub-session's chain, or why it was not carved out."""
        with ledger_words(), _refusals():
            return await self._sessions.spawn(
                tenant=parent.tenant,
                agent=parent.agent,
                parent=parent.session,
                name=name,
                limits=limits,
            )

    async def is_beneath(self, session: SessionId, *, above: SessionId) -> bool:
        """Tell whether a session was carved out of another, or out of what was."""
        with ledger_words():
            return await self._sessions.is_beneath(session, above=above)

    async def close(self, above: ScopeChain, *, name: str) -> Amounts:
        """Close a session below `above` and return what came back."""
        with ledger_words(), _refusals():
            session = await self._sessions.find(above.agent, name)
            if above.session not in (await self._sessions.chain(session))[:-1]:
                raise NotFoundError(f"this session has no sub-session {name}")
            given = await self._sessions.close(above.agent, session.session_id)
            return Amounts(given.given_back)


@contextmanager
def _refusals() -> Iterator[None]:
    """Tell what an agent asked for wrongly from what the store cannot do."""
    try:
        yield
    except (
        AlreadyExistsError,
        NotFoundError,
        SessionOwnerError,
        UnstorableError,
        InvalidBudgetError,
        InvalidScopeError,
    ) as error:
        raise SubSessionRefusedError(str(error)) from error


class StoreUses:
    """The store's call records as what the gateway learns from which tool helped."""

    def __init__(self, calls: CallLog) -> None:
        """Take the call log."""
        self._calls = calls

    async def latest(self, *, calls_max: int, with_words_of: str) -> tuple[PastCall, ...]:
        """Return the latest calls that went well, in the order of their ends."""
        with ledger_words():
            good = await self._calls.latest_good(limit=calls_max, in_full=with_words_of)
        return tuple(
            PastCall(
                tenant=call.tenant,
                session=call.session,
                tool=call.name,
                ended_at_ms=call.ended_at_ms,
                words=query_in(call.arguments or ""),
                found=found_in(call.detail or ""),
            )
            for call in good
        )


class StoreTurns:
    """The store's turn book, in the words that the gateway's turn control has for it."""

    def __init__(self, book: TurnBook) -> None:
        """Take the book."""
        self._book = book

    async def known(self, session: SessionId) -> TurnsKnown:
        """Return what is stored of a session, of one that is new nothing."""
        with ledger_words():
            past = await self._book.past(session)
        view = past.view
        return TurnsKnown(
            task_class=view.task_class,
            mode=view.mode,
            base=view.base_turns,
            extended=view.extended,
            extensions=len(view.extensions),
            turns=past.turns,
            prints=past.prints,
            fresh_from=past.fresh_from,
            cost_microusd=past.cost_microusd,
            model_turn=past.model_turn,
        )

    async def history(
        self, *, tenant: TenantId, task_class: TaskClass
    ) -> tuple[FinishedSession, ...]:
        """Return the latest finished sessions of a class."""
        with ledger_words():
            return await self._book.history(tenant=tenant, task_class=task_class)

    async def begin(
        self,
        chain: ScopeChain,
        *,
        task_class: TaskClass,
        mode: TurnMode,
        base: int | None,
        now_ms: int,
    ) -> None:
        """Keep what a session begins with."""
        with ledger_words():
            await self._book.begin(
                chain, task_class=task_class, mode=mode, base_turns=base, now_ms=now_ms
            )

    async def extend(self, chain: ScopeChain, *, turns: int, reason: str, now_ms: int) -> None:
        """Keep that the session was given more turns, in its agent's name."""
        with ledger_words():
            await self._book.extend(
                chain.session, turns=turns, reason=reason, by=Actor(name=chain.agent), now_ms=now_ms
            )

    async def mark_cut(self, session: SessionId) -> None:
        """Keep that the session was denied a turn."""
        with ledger_words():
            await self._book.mark_cut(session)


class StoreFlows:
    """The store's flows of sessions, in the words that the gateway's guard has for them."""

    def __init__(self, book: FlowBook) -> None:
        """Take the book."""
        self._book = book

    async def known(self, session: SessionId) -> FlowKnown:
        """Return what is stored of a session and those above it."""
        with ledger_words():
            view = await self._book.known(session)
        return FlowKnown(
            root=view.root,
            is_settled=view.is_settled,
            marks=view.marks,
            words=view.words,
            task_class=view.task_class,
        )

    async def mark(self, root: SessionId, labels: Mapping[Label, ToolName], *, now_ms: int) -> None:
        """Keep what a session has seen."""
        with ledger_words():
            await self._book.mark(root, labels, now_ms=now_ms)

    async def say(
        self,
        root: SessionId,
        words: str,
        *,
        words_from: str,
        task_class: TaskClass | None,
        now_ms: int,
    ) -> bool:
        """Keep the user's words; False where there are some, or others were heard before."""
        with ledger_words():
            return await self._book.say(
                root, words, words_from=words_from, task_class=task_class, now_ms=now_ms
            )


class StoreManifests:
    """The store's manifests, in the words that the gateway's pins have for them."""

    def __init__(self, book: ManifestBook, *, now_ms: Callable[[], int]) -> None:
        """Take the book."""
        self._book = book
        self._now_ms = now_ms

    async def all(self) -> dict[UpstreamName, ManifestKnown]:
        """Return what was approved of each upstream."""
        with ledger_words():
            found = await self._book.all()
        return {name: _manifest_known(manifest) for name, manifest in found.items()}

    async def approve(
        self,
        upstream: UpstreamName,
        tools: Mapping[str, Mapping[str, object]],
        *,
        expected_revision: int,
        by: str,
    ) -> ManifestKnown | None:
        """Keep what is approved; None where something else was approved since."""
        with ledger_words():
            try:
                kept = await self._book.approve(
                    upstream,
                    tools,
                    expected_revision=expected_revision,
                    by=Actor(name=by),
                    now_ms=self._now_ms(),
                )
            except VersionConflictError:
                return None
        return _manifest_known(kept)


def _manifest_known(manifest: ApprovedManifest) -> ManifestKnown:
    return ManifestKnown(
        revision=manifest.revision,
        tools=manifest.tools,
        approved_at_ms=manifest.approved_at_ms,
        approved_by=manifest.approved_by,
    )


def balance_json(view: BalanceView, now_ms: int) -> dict[str, object]:
    """Return a balance as agents see it."""
    return {
        "budget_id": view.budget_id,
        "scope": view.scope.value,
        "unit": view.unit.value,
        "limit": view.limit,
        "used": view.used,
        "reserved": view.reserved,
        "remaining": view.remaining,
        "starts_at_ms": None if view.resets_at_ms is None else view.window.start_ms(now_ms),
        "resets_at_ms": view.resets_at_ms,
        **({} if view.burst is None else {"every_ms": view.every_ms, "burst": view.burst}),
    }

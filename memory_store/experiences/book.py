"""The book of experiences: written, read by index, corrected, withdrawn, erased."""

from functools import partial

from sqlalchemy import Connection, and_

from governor.experience.chain import LogEntry
from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.quota import Exceeded
from governor.experience.receipt import Receipt
from governor.ids import ExperienceId, NamespaceId, PrincipalId, SessionId, TenantId
from memory_store.engine import driver_of
from memory_store.errors import (
    ArchiveCorruptError,
    ExperienceCorruptError,
    ExperienceNotFoundError,
    InvalidExperienceError,
    StoreError,
    StoreUnavailableError,
)
from memory_store.experiences import browsing, uses, writing
from memory_store.experiences.blobs import Blobs
from memory_store.experiences.browsing import KeptContent, Wanted
from memory_store.experiences.drafts import ReadyDraft, prepared, within
from memory_store.experiences.gathering import Gathering
from memory_store.experiences.heads import Head, read_head
from memory_store.experiences.marking import Forget, Order, checked
from memory_store.experiences.receipts import finding_of, receipt_of
from memory_store.experiences.rows import proven
from memory_store.experiences.scrubbing import Scrub, Scrubbing
from memory_store.experiences.tables import experiences
from memory_store.experiences.values import (
    SLICE_BYTES_MAX,
    Changed,
    Dereferenced,
    Indexed,
    ReceiptFinding,
    UseNote,
    WriteLimits,
    Written,
)
from memory_store.experiences.withdrawing import Withdrawal
from memory_store.experiences.writing import BlobsMissingError
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.writer import Writer

LIMITS = WriteLimits()
_NUMBER_MAX = 2**63 - 1


class ExperienceBook:
    """Keeps experiences, each written once and never changed.

    A correction supersedes, a withdrawal marks, an erasure leaves a tombstone in the log.
    Another tenant's experience is answered like one that is not there.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        reader: Reader,
        blobs: Blobs,
        forgets: tuple[Forget, ...] = (),
        scrubs: tuple[Scrub, ...] = (),
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._blobs = blobs
        self._gathering = Gathering(writer)
        self.withdrawal = Withdrawal(
            writer=writer,
            reader=reader,
            blobs=blobs,
            scrubbing=Scrubbing(writer=writer, scrubs=scrubs),
            forgets=forgets,
        )

    async def write(
        self, drafts: tuple[Indexed, ...], *, limits: WriteLimits = LIMITS
    ) -> tuple[Written | Exceeded, ...]:
        """Return what became of `drafts`, which are of one tenant: all are stored, or none.

        What the same call wrote before is not written again. What is above the quota of its
        writer in its lane is left out, and answered with that.

        Raises:
            ExperienceTooLargeError: a content is above the limit.
            ExperienceQuotaError: there is no room left.
            ExperienceNotFoundError: what one corrects or is made of is not there.
            ExperienceSupersededError: what one corrects was corrected already.
            ExperienceRevokedError: what one is made of was revoked.
            InvalidExperienceError: one contradicts itself.
            AlreadyExistsError: an id is that of something else.
            NamespaceNotFoundError: the tenant has no such namespace.
            UnstorableError: a name or number is not one that a database holds.
            StoreUnavailableError: the disk or the database refused.
            StoreOverloadedError: too much waits to be written.
        """
        ready = prepared(drafts, limits)
        if not ready:
            return ()
        tenant = ready[0].experience.tenant
        missing = await self._missing(tenant, ready)
        while True:
            offered = await self._blobs.put(tenant, ready, missing)
            # What may yet prove to be stored (a COMMIT that failed, a caller that went away)
            # keeps its blobs; the sweep knows whether a row names them.
            unused: set[str] = set()
            try:
                stored = await self._gathering.store(ready, limits, offered)
                unused = set(offered.values()).difference(stored.kept)
            except BlobsMissingError as error:
                missing |= error.addresses  # one was erased meanwhile
                unused = set(offered.values())
                continue
            except StoreUnavailableError:
                raise
            except StoreError:
                unused = set(offered.values())
                raise
            finally:
                self._blobs.settled(offered.values())
                await self._blobs.discard(tenant, unused)
            return stored.results

    async def get(
        self, ids: tuple[ExperienceId, ...], *, tenant: TenantId, now_ms: int | None = None
    ) -> tuple[Experience, ...]:
        """Return the experiences of those ids, in their order.

        With `now_ms`, what has run out by then is not there.

        Raises:
            ExperienceNotFoundError: one is not there, or is another tenant's.
        """
        return await self._reader.run(
            lambda connection: browsing.get(driver_of(connection), within(ids), tenant, now_ms)
        )

    async def content(
        self,
        experience_id: ExperienceId,
        *,
        tenant: TenantId,
        offset: int = 0,
        length: int = SLICE_BYTES_MAX,
        now_ms: int | None = None,
    ) -> Dereferenced:
        """Return at most `SLICE_BYTES_MAX` bytes from `offset`, of a content that proved intact.

        Raises:
            ExperienceNotFoundError: it is not there (any more), or is another tenant's.
            ExperienceCorruptError: what is kept is not what was written.
        """

        def read(connection: Connection) -> tuple[KeptContent, Head | None]:
            driver = driver_of(connection)
            return (
                browsing.content_of(driver, experience_id, tenant),
                read_head(driver, tenant),
            )

        kept, head = await self._reader.run(read)
        experience = proven(kept.kept.experience, b"" if head is None else head.secret)
        if browsing.is_gone(experience, now_ms):
            raise ExperienceNotFoundError
        if head is None:
            raise ExperienceCorruptError
        content = await self._whole(kept)
        start = max(0, offset)
        return Dereferenced(
            experience=experience,
            content=content[start : start + max(0, min(length, SLICE_BYTES_MAX))],
            offset=start,
            receipt=receipt_of(kept.kept, head),
        )

    async def contents(
        self, ids: tuple[ExperienceId, ...], *, tenant: TenantId, bytes_max: int
    ) -> tuple[bytes | None, ...]:
        """Return small contents, each intact; None of one that is above `bytes_max` or a blob.

        Raises:
            ExperienceNotFoundError: one is not there, or is another tenant's.
            ExperienceCorruptError: what is kept of one is not what was written.
        """
        return await self._reader.run(
            lambda connection: browsing.contents_of(
                driver_of(connection), within(ids), tenant, bytes_max
            )
        )

    async def proves(self, receipt: Receipt) -> ReceiptFinding:
        """Return what a receipt proves; its content is compared by `receipt.is_of`."""
        return await self._reader.run(partial(finding_of, receipt=receipt))

    async def mark(
        self,
        ids: tuple[ExperienceId, ...],
        standing: Standing,
        *,
        tenant: TenantId,
        by: str,
        why: str,
        now_ms: int,
        takes_effect: bool = True,
    ) -> Changed:
        """Return how many experiences now stand elsewhere: promoted, quarantined or revoked.

        A promoted correction that takes effect supersedes what it corrects; what is withdrawn
        again no longer does. With what is revoked goes all that was made of it, and it stays
        revoked: what was decided before somebody revoked it is passed over.

        Raises:
            ExperienceNotFoundError: one is not there; then none is marked.
            InvalidExperienceError: only a correction supersedes; or they are too many at once.
        """
        order = Order.made(tenant=tenant, by=by, why=why, now_ms=now_ms)
        return await self.withdrawal.mark(
            within(ids), checked(standing), order=order, takes_effect=takes_effect
        )

    async def revoke_writer(
        self,
        writer: PrincipalId,
        *,
        tenant: TenantId,
        by: str,
        why: str,
        now_ms: int,
        since_ms: int = 0,
    ) -> Changed:
        """Return how many were revoked: what `writer` wrote since, and all that was made of it."""
        order = Order.made(tenant=tenant, by=by, why=why, now_ms=now_ms)
        rows = experiences.c
        chosen = (rows.writer == writer) & (rows.learned_at_ms >= since_ms)
        return await self.withdrawal.revoke(chosen, order=order)

    async def erase(
        self,
        *,
        tenant: TenantId,
        by: str,
        why: str,
        now_ms: int,
        ids: tuple[ExperienceId, ...] = (),
        session: SessionId | None = None,
        writer: PrincipalId | None = None,
        namespace: NamespaceId | None = None,
        only_of: PrincipalId | None = None,
    ) -> Changed:
        """Return how many were erased for good: what is named, and all that was made of it.

        One of ids, session, writer and namespace says what, or several what is in each of them.
        Ids that are not there are passed over. With `only_of`, of what was made of it only what
        that principal wrote goes; the rest is quarantined, unless it may instruct.

        Raises:
            InvalidExperienceError: nothing is named, or too much at once.
            StoreUnavailableError: the disk or the database refused; ask again, it goes on.
        """
        rows = experiences.c
        given = (
            (rows.experience_id.in_(within(ids)), bool(ids)),
            (rows.session == session, session is not None),
            (rows.writer == writer, writer is not None),
            (rows.namespace == namespace, namespace is not None),
        )
        named = [clause for clause, is_given in given if is_given]
        if not named:
            message = "name what is to be erased: indices, a session, a writer or a namespace"
            raise InvalidExperienceError(message)
        order = Order.made(tenant=tenant, by=by, why=why, now_ms=now_ms)
        return await self.withdrawal.erase(and_(*named), order=order, only_of=only_of)

    async def neighbours(
        self,
        experience_id: ExperienceId,
        *,
        tenant: TenantId,
        before: int = 1,
        after: int = 1,
        now_ms: int | None = None,
    ) -> tuple[Experience, ...]:
        """Return what its session wrote before and after an experience, without itself.

        With `now_ms`, what has run out by then is not there.

        Raises:
            ExperienceNotFoundError: it is not there, or is another tenant's.
        """
        earlier, later = (min(max(0, count), browsing.LISTED_MAX) for count in (before, after))

        def read(connection: Connection) -> tuple[Experience, ...]:
            driver = driver_of(connection)
            (experience,) = browsing.get(driver, (experience_id,), tenant, now_ms)
            return browsing.neighbours(
                driver, experience, before=earlier, after=later, now_ms=now_ms
            )

        return await self._reader.run(read)

    async def of_session(
        self,
        session: SessionId,
        *,
        tenant: TenantId,
        namespaces: tuple[NamespaceId, ...],
        since: int = 0,
        most: int = 100,
        now_ms: int | None = None,
    ) -> tuple[Experience, ...]:
        """Return what a session wrote in `namespaces` after the number `since`, in order.

        With `now_ms`, what has run out by then is left out.
        """
        return await self._reader.run(
            lambda connection: browsing.of_session(
                connection,
                session,
                tenant,
                namespaces=namespaces,
                after=since,
                most=min(max(1, most), browsing.LISTED_MAX),
                now_ms=now_ms,
            )
        )

    async def page(
        self,
        *,
        tenant: TenantId,
        namespace: NamespaceId | None = None,
        kind: ExperienceKind | None = None,
        lane: TrustLane | None = None,
        standing: Standing | None = None,
        writer: PrincipalId | None = None,
        limit: int = 50,
        cursor: str | None = None,
        now_ms: int | None = None,
    ) -> Page[Experience]:
        """Return a page of a tenant's experiences, the latest first.

        With `now_ms`, what has run out by then is left out.

        Raises:
            InvalidCursorError: the cursor is not one of this listing.
        """
        limit = clamped(limit)
        before = _NUMBER_MAX if cursor is None else int(key_of(cursor, kinds=(int,))[0])
        wanted = Wanted(
            tenant=tenant,
            namespace=namespace,
            kind=kind,
            lane=lane,
            standing=standing,
            writer=writer,
            now_ms=now_ms,
        )
        rows = await self._reader.run(
            lambda connection: browsing.listed(connection, wanted, before=before, most=limit + 1)
        )
        return page_of(rows, limit=limit, item=lambda one: one, key=lambda one: (one.number,))

    async def history(
        self, experience_id: ExperienceId, *, tenant: TenantId, most: int = 50
    ) -> tuple[LogEntry, ...]:
        """Return what was logged of one experience, the latest first."""
        count = min(max(1, most), browsing.LISTED_MAX)
        return await self._reader.run(
            lambda connection: browsing.history(
                driver_of(connection), tenant, experience_id, most=count
            )
        )

    async def made_of(
        self, experience_id: ExperienceId, *, tenant: TenantId, most: int = 50
    ) -> tuple[Experience, ...]:
        """Return what was made of an experience, the first of it first."""
        count = min(max(1, most), browsing.LISTED_MAX)
        return await self._reader.run(
            lambda connection: browsing.made_of(connection, experience_id, tenant, most=count)
        )

    async def log_since(
        self, tenant: TenantId, *, number: int, most: int = 1_000
    ) -> tuple[LogEntry, ...]:
        """Return what was logged of a tenant's experiences after that number, in order."""
        count = min(max(1, most), browsing.LISTED_MAX)
        return await self._reader.run(
            lambda connection: browsing.log_since(
                driver_of(connection), tenant, number=number, most=count
            )
        )

    async def note_use(self, notes: tuple[UseNote, ...], *, tenant: TenantId) -> int:
        """Return how many notes were taken; those on what is not there are passed over.

        Raises:
            InvalidExperienceError: a score is not between 0 and 1, or they are too many at once.
            UnstorableError: a name is not one that a database holds.
        """
        uses.checked(notes)
        return await self._writer.run(partial(uses.note, notes=notes, tenant=tenant))

    async def uses_of(
        self,
        ids: tuple[ExperienceId, ...],
        *,
        tenant: TenantId,
        most: int = 1_000,
        only_rated: bool = False,
    ) -> tuple[UseNote, ...]:
        """Return who was given those experiences and what came of it, the latest first.

        Of those that somebody has rated alone, the worst come first.
        """
        count = min(max(1, most), browsing.LISTED_MAX)
        return await self._reader.run(
            partial(uses.uses_of, ids=within(ids), tenant=tenant, most=count, only_rated=only_rated)
        )

    async def _missing(self, tenant: TenantId, drafts: tuple[ReadyDraft, ...]) -> frozenset[str]:
        addresses = [draft.experience.address for draft in drafts if draft.is_blob]
        if not addresses:
            return frozenset()
        return await self._reader.run(
            partial(writing.blobs_missing, tenant=tenant, addresses=addresses)
        )

    async def _whole(self, kept: KeptContent) -> bytes:
        experience = kept.kept.experience
        if kept.content is not None:
            return browsing.intact(kept.content, experience.address)
        try:
            return await self._blobs.read(
                experience.tenant, kept.blob or "", address=experience.address
            )
        except ArchiveCorruptError:
            # A blob goes after its row: if that is gone too, it was erased meanwhile.
            await self.get((experience.experience_id,), tenant=experience.tenant)
            raise ExperienceCorruptError from None

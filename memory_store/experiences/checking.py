"""The books of a tenant's experiences looked through: what is kept against what was logged.

The log is read page by page beside the writer; each page is one state of the database. A row may
be newer than the entries read so far, so what seems wrong with a standing, or missing, is asked
again at the end, when the log has been read to where it then ended.
"""

from functools import partial

from sqlalchemy import Connection, select

from governor.experience.chain import LogEntry, LogEvent, first_hash
from governor.ids import TenantId
from memory_store.errors import ArchiveCorruptError, StoreUnavailableError
from memory_store.experiences.blobs import Blobs
from memory_store.experiences.check_pages import CheckPage, Unfound, Whole, page_of
from memory_store.experiences.check_rows import CONTENT, wrongs_of
from memory_store.experiences.check_state import PROBLEMS_MAX, CheckState
from memory_store.experiences.check_sums import compare_all
from memory_store.experiences.mending import Mending
from memory_store.experiences.tables import experiences
from memory_store.experiences.values import Looked
from memory_store.reader import Reader
from memory_store.writer import Writer

_rows = experiences.c


class ExperienceCheck:
    """Looks through the experiences of a tenant, beside everything else."""

    def __init__(self, *, reader: Reader, writer: Writer, blobs: Blobs, unfound: Unfound) -> None:
        self._reader = reader
        self._blobs = blobs
        self._unfound = unfound
        self._mending = Mending(writer)

    async def look(self, tenant: TenantId, *, with_blobs: bool = True) -> Looked:
        """Return what does not add up: in the log, in the rows, in the contents, in the sums.

        Raises:
            StoreUnavailableError: the database cannot be read.
        """
        state = CheckState(tenant=tenant, number=0, hash=first_hash(tenant))
        while (page := await self._reader.run(partial(self._page, state=state))).entries:
            state.take(page)
            for entry in page.entries:
                if isinstance(entry, LogEntry) and entry.event is LogEvent.WRITTEN:
                    await self._look_at(entry, page, state, with_blobs=with_blobs)
        await self._reader.run(partial(self._finish, state=state))
        return Looked(
            entries=state.entries,
            experiences=state.experiences,
            problems=tuple(state.problems[:PROBLEMS_MAX]),
            is_cut=len(state.problems) > PROBLEMS_MAX,
        )

    async def mend(self, tenant: TenantId) -> None:
        """Make the ties between experiences, and where words are found, anew out of the rows.

        Raises:
            StoreUnavailableError: the database cannot be written.
        """
        await self._mending.mend(tenant)

    def _page(self, connection: Connection, *, state: CheckState) -> CheckPage:
        tenant, number = state.tenant, state.number
        return page_of(connection, tenant=tenant, number=number, unfound=self._unfound)

    async def _look_at(
        self, entry: LogEntry, page: CheckPage, state: CheckState, *, with_blobs: bool
    ) -> None:
        one = page.found.get(entry.experience_number)
        if one is None:
            return
        for what in wrongs_of(one, entry, page):
            state.add(what, entry.experience_id)
        if with_blobs and one.content is None and one.blob is not None:
            await self._look_into(one, one.blob, state)

    async def _look_into(self, one: Whole, blob: str, state: CheckState) -> None:
        """Compare a blob with its address."""
        experience = one.kept.experience
        try:
            await self._blobs.read(experience.tenant, blob, address=experience.address)
        except (ArchiveCorruptError, StoreUnavailableError) as error:
            # It may have been erased since the page was read.
            query = select(_rows.number).where(_rows.number == experience.number)
            if await self._reader.run(lambda connection: connection.scalar(query)) is not None:
                is_there = isinstance(error, StoreUnavailableError)
                what = "its content cannot be read from where it is" if is_there else CONTENT
                state.add(what, experience.experience_id)

    def _finish(self, connection: Connection, *, state: CheckState) -> None:
        """Read the log to its end, and compare what is kept in all, as of one instant."""
        while (page := self._page(connection, state=state)).entries:
            state.take(page)
        head = page.head
        if page.is_head_damaged:
            state.add("the tenant's key, or the end of its log, cannot be read")
        elif head is not None and (head.number, head.hash) != (state.number, state.hash):
            state.add("the log does not end where it is said to")
        compare_all(connection, state)

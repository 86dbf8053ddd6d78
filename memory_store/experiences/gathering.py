"""Writes of experiences that came together, stored as one.

What a transaction costs by itself, and on a server each way there and back, is shared by all that
came while the writer was at something else. Where one of them cannot be stored, each is stored by
itself, so that it alone fails.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from sqlalchemy import Connection

from governor.ids import TenantId
from memory_store.engine import driver_of
from memory_store.errors import StoreError, StoreOverloadedError, StoreUnavailableError
from memory_store.experiences.drafts import DRAFTS_MAX, ReadyDraft
from memory_store.experiences.values import WriteLimits
from memory_store.experiences.writing import BlobsMissingError, Stored, store
from memory_store.writer import Writer

# How many callers may wait for their experiences to be stored.
WAITING_MAX = 3_000


@dataclass(slots=True, kw_only=True)
class _Request:
    """One caller's drafts and what became of them."""

    drafts: Sequence[ReadyDraft]
    limits: WriteLimits
    offered: Mapping[str, str]
    future: "asyncio.Future[Stored]"
    result: Stored | None = None
    error: Exception | None = None


@dataclass(slots=True, kw_only=True)
class _Group:
    """Requests of one tenant; more may join until the writer begins with them."""

    tenant: TenantId
    requests: list[_Request] = field(default_factory=list)
    _drafts: int = 0
    _is_closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def join(self, request: _Request) -> bool:
        """Tell whether `request` is one of the group now."""
        with self._lock:
            if self._is_closed or self._drafts + len(request.drafts) > DRAFTS_MAX:
                return False
            self.requests.append(request)
            self._drafts += len(request.drafts)
            return True

    def work(self, connection: Connection) -> None:
        """Store every request, and note on each what became of it."""
        with self._lock:
            self._is_closed = True
        for request in self.requests:
            request.result = request.error = None
        if len(self.requests) > 1 and _are_alike(self.requests):
            try:
                self._store_together(connection)
            except (StoreError, BlobsMissingError) as error:
                if isinstance(error, StoreUnavailableError):
                    raise
            else:
                return
        for request in self.requests:
            _store_alone(connection, request)

    def tell(self, done: "asyncio.Future[None]") -> None:
        """Tell those who still wait, once it is known what became of the transaction."""
        failure = StoreUnavailableError() if done.cancelled() else done.exception()
        for request in self.requests:
            if request.future.done():
                continue
            error = request.error if failure is None else _of_one(failure)
            if error is not None:
                request.future.set_exception(error)
            else:
                assert request.result is not None, "what did not fail was stored"
                request.future.set_result(request.result)

    def _store_together(self, connection: Connection) -> None:
        limits = self.requests[0].limits
        if limits.now_ms is not None:
            times = [request.limits.now_ms or 0 for request in self.requests]
            limits = replace(limits, now_ms=max(times))
        stored = _in_savepoint(
            connection,
            drafts=[draft for request in self.requests for draft in request.drafts],
            limits=limits,
            offered={
                address: name
                for request in self.requests
                for address, name in request.offered.items()
            },
        )
        results = iter(stored.results)
        kept = frozenset(stored.kept)
        for request in self.requests:
            request.result = Stored(
                results=tuple(islice(results, len(request.drafts))),
                kept=tuple(name for name in request.offered.values() if name in kept),
            )


class Gathering:
    """Has the writer store what came together as one."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._groups: dict[TenantId, _Group] = {}
        self._waiting = 0

    async def store(
        self, drafts: Sequence[ReadyDraft], limits: WriteLimits, offered: Mapping[str, str]
    ) -> Stored:
        """Return what `writing.store` did with drafts of one tenant, once it is committed.

        Raises:
            BlobsMissingError: a content is in no blob yet; nothing was stored.
            StoreError: a draft cannot be kept; nothing was stored.
        """
        if self._waiting >= WAITING_MAX:
            raise StoreOverloadedError
        future: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        request = _Request(drafts=drafts, limits=limits, offered=offered, future=future)
        tenant = drafts[0].experience.tenant
        group = self._groups.get(tenant)
        if group is None or not group.join(request):
            self._submit(tenant, request)
        self._waiting += 1
        try:
            return await future
        finally:
            self._waiting -= 1

    def _submit(self, tenant: TenantId, request: _Request) -> None:
        group = _Group(tenant=tenant)
        group.join(request)
        done = self._writer.submit(group.work)
        self._groups[tenant] = group
        done.add_done_callback(lambda ended: self._ended(group, ended))

    def _ended(self, group: _Group, done: "asyncio.Future[None]") -> None:
        if self._groups.get(group.tenant) is group:
            del self._groups[group.tenant]
        group.tell(done)


def _of_one(failure: BaseException) -> BaseException:
    """Return a failure of all for one of them, to whose traceback nobody else adds."""
    if not isinstance(failure, StoreUnavailableError):
        return failure
    own = StoreUnavailableError(str(failure))
    own.__cause__ = failure
    return own


def _are_alike(requests: Sequence[_Request]) -> bool:
    """Tell whether the same limits hold for all, whatever the time is for each."""
    first = requests[0].limits
    return all(
        request.limits is first
        or (
            request.limits.tenant_bytes_max == first.tenant_bytes_max
            and request.limits.tenant_items_max == first.tenant_items_max
            and request.limits.lanes == first.lanes
            and (request.limits.now_ms is None) == (first.now_ms is None)
        )
        for request in requests[1:]
    )


def _store_alone(connection: Connection, request: _Request) -> None:
    try:
        request.result = _in_savepoint(
            connection, drafts=request.drafts, limits=request.limits, offered=request.offered
        )
    except (StoreError, BlobsMissingError) as error:
        if isinstance(error, StoreUnavailableError):
            raise
        request.error = error


def _in_savepoint(
    connection: Connection,
    *,
    drafts: Sequence[ReadyDraft],
    limits: WriteLimits,
    offered: Mapping[str, str],
) -> Stored:
    driver = driver_of(connection)
    driver.execute("SAVEPOINT experiences")
    try:
        stored = store(connection, drafts=drafts, limits=limits, offered=offered)
    except (StoreError, BlobsMissingError):
        driver.execute("ROLLBACK TO experiences")
        driver.execute("RELEASE experiences")
        raise
    driver.execute("RELEASE experiences")
    return stored

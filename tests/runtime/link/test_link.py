"""Two ends of a Unix socket: what may be asked, what is answered, and what a silence means."""

import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskStatus
from contracts.builders import COST, TENANT, budget, record, request, used

from governor.command_class import CommandClass
from governor.events import Reserved
from governor.expectation import Known, Measure, Work
from governor.experience.chain import LogEvent
from governor.experience.kinds import Standing, TrustLane
from governor.experience.quota import LaneLimit, LaneQuotas
from governor.ids import ApprovalId, ExperienceId, PrincipalId, SessionId, ToolName, UpstreamName
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import (
    ExperienceNotFoundError,
    NotFoundError,
    StoreUnavailableError,
    UnstorableError,
    VersionConflictError,
)
from memory_store.experiences.values import WriteLimits
from memory_store.identities import Role
from memory_store.store import Store, open_store
from runtime.clock import SystemClock
from runtime.errors import ListenError
from runtime.link.books import OPERATIONS, STORE_BOOKS, books_of, remote_store
from runtime.link.client import Link
from runtime.link.frames import FRAME_BYTES_MAX, Frames, framed
from runtime.link.house import House
from runtime.link.operations import Operations
from runtime.link.server import LinkServer, bound
from tests.memory_store.experiences.makers import ACME, BY, draft, ids

pytestmark = pytest.mark.anyio

ROOT = Actor(name="root")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Ends:
    """A keeper's end and a worker's, in one process."""

    path: Path
    held: Store
    store: Store
    link: Link
    server: LinkServer


@asynccontextmanager
async def ends(folder: Path) -> AsyncIterator[Ends]:
    path = folder / "keeper.sock"
    async with open_store(folder / "state", durability=Durability.PROCESS) as held:
        await held.tenants.create(TENANT, name="Acme", by=ROOT, now_ms=0)
        server = LinkServer(OPERATIONS, books_of(held, a_house()))
        async with server.listening(path):
            link = Link(path, OPERATIONS, worker=1)
            async with link.connected():
                yield Ends(path, held, remote_store(link, bulk=link), link, server)


def a_house() -> House:
    return House(clock=SystemClock(), idle_ms=1_000, gate=None)


async def test_a_call_is_admitted_settled_and_recorded_as_beside_the_store(tmp_path: Path) -> None:
    async with ends(tmp_path) as both:
        await both.held.budgets.create(budget({COST: 10}), by=ROOT, now_ms=0)
        asked = request({COST: 4})
        decision = await both.store.ledger.admit(asked)
        assert isinstance(decision, Reserved)
        await both.store.ledger.forward(asked.reservation_id)
        usage = used({COST: 3})
        settled = await both.store.ledger.settle(
            asked.reservation_id, usage, record(asked, usage=usage)
        )
        [there] = await both.held.ledger.balances(tenant=TENANT, now_ms=1_000)
        [here] = await both.store.ledger.balances(tenant=TENANT, now_ms=1_000)
        known = await both.store.calls.get(asked.call_id)

    assert here == there
    assert (here.used, here.reserved) == (3, 0)
    assert settled.reservation.reservation_id == asked.reservation_id
    assert known.record == record(asked, usage=usage)


async def test_what_a_worker_learned_is_known_to_the_others(tmp_path: Path) -> None:
    work = Work(tenant=TENANT, tool=ToolName("shell_run"), kind=CommandClass.TEST, repository="a")
    used_so = Known().with_call({Measure.WALL_MS: 70, Measure.MEMORY_PEAK_KIB: 90_000})
    async with ends(tmp_path) as both:
        await both.store.works.add(((work, used_so),), now_ms=1)
        await both.store.works.add(((work, used_so),), now_ms=2)
        there, here = await both.held.works.all(), await both.store.works.all()

    assert here == there == ((work, used_so.plus(used_so)),)


async def test_who_calls_is_proven_at_the_other_end_and_nothing_but_a_hash_goes_there(
    tmp_path: Path,
) -> None:
    async with ends(tmp_path) as both:
        agent = PrincipalId("ada")
        await both.store.principals.create(
            agent, tenant=TENANT, name="Ada", role=Role.AGENT, by=ROOT, now_ms=0
        )
        token = await both.held.principals.issue_token(agent, expires_at_ms=None, by=ROOT, now_ms=0)
        known = await both.store.principals.authenticate(token.secret, now_ms=1)
        vouched_for = await both.store.principals.identity_of(agent, now_ms=1)
        stranger = await both.store.principals.authenticate("fbt_none", now_ms=1)
        await both.held.principals.revoke_token(token.token_id, by=ROOT, now_ms=2)
        later = await both.store.principals.authenticate(token.secret, now_ms=2_000)

    assert known is not None
    assert vouched_for is not None
    assert (known.principal, vouched_for.principal) == (agent, agent)
    assert (stranger, later) == (None, None)


async def test_an_error_is_raised_as_what_it_was(tmp_path: Path) -> None:
    async with ends(tmp_path) as both:
        with pytest.raises(NotFoundError, match="there is no session ses_none"):
            await both.store.sessions.get(SessionId("ses_none"))
        with pytest.raises(NotFoundError):
            await both.store.approvals.get(ApprovalId("apr_none"))
        with pytest.raises(VersionConflictError) as caught:
            await both.store.manifests.approve(
                UpstreamName("files"), {"read": {"a": 1}}, expected_revision=3, by=ROOT, now_ms=0
            )

    assert (caught.value.expected, caught.value.actual) == (3, 0)


async def test_what_fails_in_a_way_that_no_book_knows_is_a_failure_of_the_store(
    tmp_path: Path,
) -> None:
    async with ends(tmp_path) as both:

        async def broken(**_: object) -> None:
            raise ZeroDivisionError

        number = OPERATIONS.of_book["sessions"]["get"].number
        both.server.methods[number] = broken
        with pytest.raises(StoreUnavailableError):
            await both.store.sessions.get(SessionId("s"))

        assert await both.store.sessions.states((SessionId("s"),)) == {}


async def test_only_what_is_on_the_list_can_be_asked_for(tmp_path: Path) -> None:
    async with ends(tmp_path) as both:
        for ask in (
            lambda: both.store.budgets.create,
            lambda: both.store.tenants.put,
            lambda: both.store.principals.__getattribute__("_remote").issue_token,
            lambda: both.store.ledger.expire_due,
            lambda: both.store.retention.purge,
        ):
            with pytest.raises(AttributeError):
                ask()


async def test_text_that_no_utf8_holds_is_refused_but_what_is_owed_is_kept_as_escapes(
    tmp_path: Path,
) -> None:
    async with ends(tmp_path) as both:
        asked = request({COST: 4})
        await both.held.budgets.create(budget({COST: 10}), by=ROOT, now_ms=0)
        await both.store.ledger.admit(asked)
        usage = used({COST: 3})
        told = replace(record(asked, usage=usage), detail="half \udc80 of it")
        await both.store.ledger.settle(asked.reservation_id, usage, told)
        with pytest.raises(UnstorableError):
            await both.store.sessions.get(SessionId("\udc80"))
        known = await both.store.calls.get(asked.call_id)

    assert known.record.detail == "half \\udc80 of it"


async def test_what_is_asked_when_the_other_end_goes_fails_and_works_when_it_is_back(
    tmp_path: Path,
) -> None:
    path, asked, go = tmp_path / "keeper.sock", anyio.Event(), anyio.Event()
    failed: list[StoreUnavailableError] = []

    async def silent(**_: object) -> None:
        asked.set()
        await anyio.sleep_forever()

    async def serve(
        server: LinkServer, until: anyio.Event, *, task_status: TaskStatus[None]
    ) -> None:
        async with server.listening(path):
            task_status.started()
            await until.wait()

    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as held:
        first, second = (LinkServer(OPERATIONS, books_of(held, a_house())) for _ in range(2))
        first.methods[OPERATIONS.of_book["sessions"]["get"].number] = silent
        link = Link(path, OPERATIONS, worker=1)
        store = remote_store(link, bulk=link)

        async def ask() -> None:
            try:
                await store.sessions.get(SessionId("s"))
            except StoreUnavailableError as error:
                failed.append(error)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                await tasks.start(serve, first, go)
                async with link.connected():
                    async with anyio.create_task_group() as asking:
                        asking.start_soon(ask)
                        await asked.wait()
                        go.set()
                    await ask()
                    await tasks.start(serve, second, anyio.Event())
                    while not link.is_open:
                        await anyio.sleep(0.01)
                    with pytest.raises(NotFoundError):
                        await store.sessions.get(SessionId("s"))
                tasks.cancel_scope.cancel()

    assert len(failed) == 2


async def test_whoever_asked_and_has_gone_is_worked_for_no_longer(tmp_path: Path) -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def slow(**_: object) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with ends(tmp_path) as both:
        both.server.methods[OPERATIONS.of_book["sessions"]["get"].number] = slow
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(both.store.sessions.get, SessionId("s"))
                await began.wait()
                tasks.cancel_scope.cancel()
            await ended.wait()


async def test_another_version_is_not_served(tmp_path: Path) -> None:
    fewer = {name: book for name, book in STORE_BOOKS.items() if name != "flows"}
    async with ends(tmp_path) as both:
        other = Link(both.path, Operations(fewer, owed=()), worker=2)
        with anyio.move_on_after(1) as waited:
            async with other.connected():
                pytest.fail("it was let in")

        assert waited.cancelled_caught

        assert both.server.workers == {1}


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x01\xc1", b"\xff" * 64])
async def test_whoever_says_something_else_is_cut_off_and_nobody_else(
    tmp_path: Path, said: bytes
) -> None:
    async with ends(tmp_path) as both:
        async with await anyio.connect_unix(both.path) as stranger:
            await stranger.send(said)
            with (
                anyio.fail_after(60),
                pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)),
            ):
                await stranger.receive()

        assert await both.store.sessions.states((SessionId("s"),)) == {}


async def test_the_socket_is_its_owners_alone_and_replaces_one_that_was_left(
    tmp_path: Path,
) -> None:
    path = tmp_path / "keeper.sock"
    bound(path).close()
    async with ends(tmp_path) as both:
        mode = stat.S_IMODE(both.path.stat().st_mode)

    assert mode == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_another_users_process_is_sent_away() -> None:
    script = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534); "
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
        "s.sendall(b'\\0\\0\\0\\x01\\x90'); print(s.recv(100))"
    )
    with tempfile.TemporaryDirectory() as name:
        # Whoever gets to the socket in spite of its mode is still asked who they are.
        os.chmod(name, 0o711)  # noqa: PTH101 - nothing waits for it
        async with ends(Path(name)) as both:
            both.path.chmod(0o666)
            command = [sys.executable, "-c", script, str(both.path)]
            done = await anyio.run_process(command, check=False)
            links = both.server.workers

    # It is cut off before it has sent anything, or while it waits for an answer.
    assert b"b''" in done.stdout or b"Connection" in done.stderr or b"Broken" in done.stderr
    assert links == {1}


def test_a_path_that_is_too_long_for_a_socket_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="choose a state directory with a shorter name"):
        bound(tmp_path / ("x" * 120) / "keeper.sock")


def test_frames_come_whole_however_the_stream_is_cut() -> None:
    sent = b"".join(framed([number, "x" * number]) for number in range(50))
    frames, taken = Frames(), []
    for at in range(0, len(sent), 7):
        taken += list(frames.taken(sent[at : at + 7]))

    assert b"".join(len(one).to_bytes(4, "big") + one for one in taken) == sent


def test_a_frame_that_is_too_large_is_neither_sent_nor_taken() -> None:
    with pytest.raises(ValueError, match="are more than"):
        framed(b"x" * (FRAME_BYTES_MAX + 1))
    with pytest.raises(ValueError, match="a frame of"):
        list(Frames().taken((FRAME_BYTES_MAX + 1).to_bytes(4, "big")))


async def test_experiences_are_written_read_and_refused_as_beside_the_store(tmp_path: Path) -> None:
    limits = WriteLimits(lanes=LaneQuotas(limits={TrustLane.WEB: LaneLimit(writes_max=0)}))
    async with ends(tmp_path) as both:
        book = both.store.experiences
        space = (await both.store.namespaces.make("agent", tenant=ACME, now_ms=1)).namespace
        large = draft("a", space, content=b"\xff\x00" * 300_000)
        results = await book.write(
            (large, draft("w", space, lane=TrustLane.WEB)), limits=replace(limits, now_ms=9)
        )
        here = await book.content(large.draft.experience_id, tenant=ACME)
        there = await both.held.experiences.content(large.draft.experience_id, tenant=ACME)
        found = await book.proves(here.receipt)
        entries = await book.log_since(ACME, number=0)
        with pytest.raises(ExperienceNotFoundError) as error:
            await book.get((ExperienceId("exp_nobody"),), tenant=ACME)
        changed = await book.mark(ids("a"), Standing.REVOKED, tenant=ACME, **BY)

    assert [type(result).__name__ for result in results] == ["Written", "Exceeded"]
    assert here == there
    assert (found.is_genuine, found.is_logged) == (True, True)
    assert [entry.event for entry in entries] == [LogEvent.WRITTEN]
    assert str(error.value) == "There is no such experience."
    assert changed.experiences == 1

"""What sessions have seen, over restarts and between sub-sessions."""

from pathlib import Path

import pytest
from contracts.builders import AGENT, TENANT

from governor.amounts import Amounts, Unit
from governor.flow.labels import Label
from governor.ids import ReservationId, SessionId, TaskClass, ToolName
from memory_store.carves import SpawnRequest
from memory_store.engine import Durability
from memory_store.flows import FlowView
from memory_store.sessions import session_id_for
from memory_store.store import Store, open_store

pytestmark = pytest.mark.anyio

ONE = SessionId("ses_one")
FETCH, READ = ToolName("web__fetch"), ToolName("mail__read")


async def test_of_a_new_session_nothing_is_known(store: Store) -> None:
    assert await store.flows.known(ONE) == FlowView(root=ONE, is_settled=False)


@pytest.mark.requirement("flow.seen-survives")
async def test_what_was_seen_is_kept_in_its_order_by_its_first_tool(store: Store) -> None:
    await store.flows.mark(ONE, {Label.SEES_UNTRUSTED: FETCH}, now_ms=1)
    await store.flows.mark(ONE, {Label.READS_PRIVATE: READ, Label.SEES_UNTRUSTED: READ}, now_ms=2)

    known = await store.flows.known(ONE)

    assert list(known.marks.items()) == [
        (Label.SEES_UNTRUSTED, FETCH),
        (Label.READS_PRIVATE, READ),
    ]


@pytest.mark.requirement("flow.words-are-trusted")
async def test_words_are_kept_once_and_not_after_others_were_heard(store: Store) -> None:
    async def said(session: SessionId, words: str) -> bool:
        return await store.flows.say(
            session, words, words_from="task", task_class=TaskClass("mail"), now_ms=3
        )

    await store.flows.mark(SessionId("ses_two"), {Label.SEES_UNTRUSTED: FETCH}, now_ms=1)

    answers = [await said(ONE, "first"), await said(ONE, "second")]
    answers.append(await said(SessionId("ses_two"), "late"))

    assert answers == [True, False, False]
    known = await store.flows.known(ONE)
    assert (known.words, known.words_from, known.task_class) == ("first", "task", "mail")


@pytest.mark.requirement("flow.seen-survives")
async def test_a_sub_session_stands_under_its_first_ancestor(store: Store) -> None:
    for parent, name in (("top", "middle"), ("middle", "below")):
        await store.ledger.spawn(
            SpawnRequest(
                session_id=session_id_for(AGENT, name),
                reservation_id=ReservationId(f"res-{name}"),
                tenant=TENANT,
                agent=AGENT,
                parent=session_id_for(AGENT, parent),
                parent_name=parent,
                name=name,
                limits=Amounts({Unit.TOOL_CALLS: 1}),
                now_ms=1,
            )
        )

    known = await store.flows.known(session_id_for(AGENT, "below"))

    assert known == FlowView(root=session_id_for(AGENT, "top"), is_settled=True)


@pytest.mark.requirement("flow.seen-survives")
async def test_it_outlives_a_restart(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        await store.flows.mark(ONE, {Label.SEES_UNTRUSTED: FETCH}, now_ms=1)

    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        assert (await store.flows.known(ONE)).marks == {Label.SEES_UNTRUSTED: FETCH}


async def test_old_words_are_removed_with_other_old_records(store: Store) -> None:
    await store.flows.say(ONE, "old", words_from="task", task_class=None, now_ms=10)
    await store.flows.say(SessionId("ses_2"), "new", words_from="t", task_class=None, now_ms=90)

    await store.retention.purge(before_ms=50, now_ms=100)

    assert (await store.flows.known(ONE)).words is None
    assert (await store.flows.known(SessionId("ses_2"))).words == "new"

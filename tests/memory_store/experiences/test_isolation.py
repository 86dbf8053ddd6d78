"""One tenant's experiences beside another's: every method of the books is asked for the other's.

The arguments are drawn by the names of the parameters, of one's own things, the other tenant's and
things that are not there. Whatever is called, no word of the other tenant comes back, what is the
other's is answered like what is not there, and the other tenant's memory is as it was.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import count, cycle
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal
from contracts.builders import AGENT
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.namespace import Right
from governor.experience.search import Filters, MemoryTier, Search
from governor.ids import CallId, ExperienceId, NamespaceId, PrincipalId, SessionId, TenantId
from governor.retrieval.analysis import index_terms
from memory_store.errors import StoreError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.namespaces import NamespaceBook
from memory_store.experiences.values import Indexed, UseNote, WriteLimits, Written
from memory_store.search.search import ExperienceSearch
from memory_store.store import Store

THEIR_AGENT = PrincipalId("bob")
# No two examples share a tenant, so all of them can share a store.
_NUMBERS = count()
CANARY = "zyxxy-quokka"
BOOKS: dict[str, type[object]] = {
    "experiences": ExperienceBook,
    "namespaces": NamespaceBook,
    "experience_search": ExperienceSearch,
}
METHODS = [
    (book, name)
    for book, kind in BOOKS.items()
    for name, method in vars(kind).items()
    if not name.startswith("_") and inspect.isfunction(method)
]
# What stands in no argument of a call: the same in both of two calls that differ in whose it is.
_SHARED: dict[str, st.SearchStrategy[object]] = {
    "now_ms": st.sampled_from((5_000, 9_000)),
    "since_ms": st.just(0),
    "before_ms": st.just(100_000),
    "by": st.just("root"),
    "why": st.just("a test"),
    "standing": st.sampled_from(Standing),
    "kind": st.one_of(st.none(), st.sampled_from(ExperienceKind)),
    "lane": st.one_of(st.none(), st.sampled_from(TrustLane)),
    "limits": st.just(WriteLimits()),
    "limit": st.integers(1, 20),
    "most": st.integers(1, 20),
    "offset": st.integers(0, 8),
    "length": st.integers(0, 60),
    "before": st.integers(0, 3),
    "after": st.integers(0, 3),
    "since": st.integers(0, 6),
    "number": st.integers(0, 6),
    "bytes_max": st.integers(1, 10_000),
    "right": st.one_of(st.none(), st.sampled_from(Right)),
    "cursor": st.none(),
    "only_of": st.none(),
    "takes_effect": st.booleans(),
    "only_rated": st.booleans(),
    "address": st.just("00" * 32),
}
# Whoever has a receipt may have it proven: that is what it is for, and it tells nothing else.
_BY_POSSESSION = frozenset({"proves"})
_AFTER_ID = {"list": st.just("")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Things:
    """Somebody's experiences and what they are named by."""

    tenant: TenantId
    ids: tuple[ExperienceId, ...]
    namespace: NamespaceId
    name: str
    writer: PrincipalId
    session: SessionId
    call_id: CallId
    receipt: object = None


NOBODYS = Things(
    tenant=TenantId("nobody"),
    ids=(ExperienceId("exp_none0"), ExperienceId("exp_none1")),
    namespace=NamespaceId("ns_none"),
    name="team/none",
    writer=PrincipalId("nobody"),
    session=SessionId("none/one"),
    call_id=CallId("call_none"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A method, what is drawn for it, and whether each thing that is named is one's own."""

    book: str
    method: str
    shared: dict[str, object]
    is_own: tuple[bool, ...]
    number: int

    def arguments(self, own: Things, other: Things) -> dict[str, object]:
        """Return the arguments, with the things of `other` where they are not one's own."""
        choices: Iterator[bool] = cycle(self.is_own)
        # Or one's own things would come to bear the ids of theirs.
        number = self.number | 1 if any(self.is_own) else self.number

        def of() -> Things:
            return replace(own if next(choices) else other, tenant=own.tenant)

        named = {
            name: _NAMED[name](of, number)
            for name in _parameters(self.book, self.method)
            if name in _NAMED
        }
        whose = {"tenant": own.tenant} if "tenant" in _parameters(self.book, self.method) else {}
        return {**self.shared, **named, **whose}


def _parameters(book: str, method: str) -> list[str]:
    signature = inspect.signature(getattr(BOOKS[book], method))
    return [name for name in signature.parameters if name != "self"]


_Of = Callable[[], Things]


def _search(of: _Of, number: int) -> Search:
    """Return a search for the other tenant's words, in all namespaces that can be named."""
    things = of()
    return Search(
        tenant=things.tenant,
        namespaces=(things.namespace, of().namespace),
        text=f"{CANARY} words of my own",
        now_ms=9_000,
        filters=Filters(lanes=(), session=things.session if number % 2 else None),
        tier=tuple(MemoryTier)[number % 3],
    )


_NAMED: dict[str, Callable[[_Of, int], object]] = {
    "experience_id": lambda of, number: of().ids[number % 2],
    "ids": lambda of, _: (of().ids[0], of().ids[1]),
    "session": lambda of, _: of().session,
    "writer": lambda of, _: of().writer,
    "principal": lambda of, _: of().writer,
    "owner": lambda of, _: of().writer,
    "namespace": lambda of, _: of().namespace,
    "namespaces": lambda of, _: (of().namespace, of().namespace),
    "name": lambda of, _: of().name,
    "notes": lambda of, _: tuple(_note(of().ids[at]) for at in (0, 1)),
    "drafts": lambda of, number: (_draft(of, number),),
    "receipt": lambda of, _: of().receipt,
    "search": _search,
}


def _note(index: ExperienceId) -> UseNote:
    return UseNote(experience_id=index, reader=AGENT, at_ms=6_000, score=1.0)


def _draft(of: Callable[[], Things], number: int) -> Indexed:
    """Return a draft of one's own tenant that names whatever can be named."""
    choose = number % 4
    draft = _plain(of().tenant, of(), f"exp_new{number}", text="my own words")
    return Indexed(
        draft=replace(
            draft,
            experience_id=of().ids[0] if choose == 0 else draft.experience_id,
            supersedes=of().ids[1] if choose == 1 else None,
            provenance=replace(
                draft.provenance,
                derived_from=(of().ids[0],) if choose == 2 else (),
            ),
        )
    )


def _plain(tenant: TenantId, of: Things, index: str, *, text: str) -> Draft:
    return Draft(
        experience_id=ExperienceId(index),
        tenant=tenant,
        namespace=of.namespace,
        kind=ExperienceKind.FACT,
        lane=TrustLane.AGENT,
        content=text.encode(),
        media_type="text/plain",
        summary=text,
        provenance=Provenance(writer=of.writer, call_id=of.call_id, source=text),
        learned_at_ms=4_000,
        valid_from_ms=4_000,
        actor=text,
        session=of.session,
        tags=(text,),
    )


@st.composite
def calls(draw: st.DrawFn) -> Call:
    book, method = draw(st.sampled_from(METHODS))
    shared = {
        name: draw(_AFTER_ID[method] if name == "after" and method in _AFTER_ID else _SHARED[name])
        for name in _parameters(book, method)
        if name in _SHARED
    }
    return Call(
        book=book,
        method=method,
        shared=shared,
        is_own=tuple(draw(st.lists(st.booleans(), min_size=1, max_size=4))),
        number=draw(st.integers(0, 10**6)),
    )


async def settle_in(store: Store, tenant: TenantId, agent: PrincipalId, text: str) -> Things:
    """Return the things of a tenant that has written two experiences."""
    name = f"team/{tenant}"
    space = await store.namespaces.make(name, tenant=tenant, now_ms=1)
    things = Things(
        tenant=tenant,
        ids=(ExperienceId(f"exp_{tenant}0"), ExperienceId(f"exp_{tenant}1")),
        namespace=space.namespace,
        name=name,
        writer=agent,
        session=SessionId(f"{tenant}/one"),
        call_id=CallId(f"call_{tenant}"),
    )
    first, second = (
        Indexed(draft=_plain(tenant, things, index, text=f"{text} {at}"), terms=index_terms(text))
        for at, index in enumerate(things.ids)
    )
    derived = replace(second.draft.provenance, derived_from=(things.ids[0],))
    await store.experiences.write(
        (first, replace(second, draft=replace(second.draft, provenance=derived)))
    )
    read = await store.experiences.content(things.ids[0], tenant=tenant)
    note = UseNote(experience_id=things.ids[0], reader=agent, at_ms=2_000, score=0.5)
    await store.experiences.note_use((note,), tenant=tenant)
    return replace(things, receipt=read.receipt)


async def memory_of(store: Store, things: Things) -> list[object]:
    """Return all that a tenant can be shown of its memory."""
    book, tenant = store.experiences, things.tenant
    contents = [await book.content(index, tenant=tenant) for index in things.ids]
    return [
        await book.get(things.ids, tenant=tenant),
        [one.content for one in contents],
        await book.page(tenant=tenant),
        await book.log_since(tenant, number=0),
        await book.uses_of(things.ids, tenant=tenant),
        await store.namespaces.list(tenant=tenant),
        await store.namespaces.usage(tenant=tenant),
    ]


async def outcome_of(method: Callable[..., Awaitable[object]], given: dict[str, Any]) -> object:
    try:
        return await method(**given)
    except StoreError as error:
        return (type(error).__name__, str(error))


def shape(value: object) -> object:
    """Return what an answer tells, without what differs from one write to the next."""
    if isinstance(value, Experience):
        return ("experience", value.tenant, value.standing)
    if is_dataclass(value) and not isinstance(value, type):
        told = {field.name: getattr(value, field.name) for field in fields(value)}
        varies = {"number", "entry_number", "experience_id", "address", "namespace", "hash"}
        # What a call says itself comes back with what it made.
        varies |= {"name", "owner", "grants"}
        return {name: shape(one) for name, one in told.items() if name not in varies}
    if isinstance(value, (tuple, list)):
        return [shape(one) for one in value]
    return value


@pytest.mark.requirement("memory.tenants-apart")
@pytest.mark.parametrize(("book", "method"), METHODS)
def test_for_every_parameter_of_the_books_there_is_something_to_ask_with(
    book: str, method: str
) -> None:
    known = {"tenant", *_SHARED, *_NAMED}

    assert set(_parameters(book, method)) <= known, "say what a test is to give for it"


@pytest.mark.requirement("memory.tenants-apart")
@settings(max_examples=60)
@given(asked=st.lists(calls(), min_size=1, max_size=25))
def test_no_method_of_the_books_tells_or_changes_anything_of_another_tenant(
    asked: list[Call], portal: BlockingPortal, store: Store
) -> None:
    portal.call(_play, store, asked)


async def _play(store: Store, asked: list[Call]) -> None:
    with anyio.fail_after(60):
        number = next(_NUMBERS)
        theirs = await settle_in(store, TenantId(f"globex{number}"), THEIR_AGENT, CANARY)
        own = await settle_in(store, TenantId(f"acme{number}"), AGENT, "words of my own")
        before = await memory_of(store, theirs)
        for call in asked:
            method = getattr(getattr(store, call.book), call.method)
            got = await outcome_of(method, call.arguments(own, theirs))
            assert CANARY not in repr(got), call
            if not any(call.is_own) and call.method not in _BY_POSSESSION:
                twin = await outcome_of(method, call.arguments(own, NOBODYS))
                assert shape(got) == shape(twin), call
        assert await memory_of(store, theirs) == before


@pytest.mark.requirement("memory.tenants-apart")
def test_an_id_that_another_tenant_has_is_free(portal: BlockingPortal, store: Store) -> None:
    portal.call(_same_ids, store)


async def _same_ids(store: Store) -> None:
    with anyio.fail_after(60):
        number = next(_NUMBERS)
        theirs = await settle_in(store, TenantId(f"globex{number}"), THEIR_AGENT, CANARY)
        own = await settle_in(store, TenantId(f"acme{number}"), AGENT, "words of my own")
        draft = _plain(own.tenant, own, theirs.ids[0], text="mine")
        (written,) = await store.experiences.write((Indexed(draft=draft),))

        mine = await store.experiences.content(theirs.ids[0], tenant=own.tenant)
        other = await store.experiences.content(theirs.ids[0], tenant=theirs.tenant)
    assert isinstance(written, Written)
    assert written.is_new
    assert (mine.content, other.content) == (b"mine", f"{CANARY} 0".encode())

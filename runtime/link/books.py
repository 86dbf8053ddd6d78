"""The store as a worker has it: each book at the process that has the ledger to itself."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from governor.denial import Denied
from governor.gate import GateTerms
from governor.ids import PrincipalId, TenantId
from memory_store.approvals import ApprovalBook
from memory_store.archive import Archive
from memory_store.audit import Actor, AuditLog
from memory_store.bookkeeping import Bookkeeping
from memory_store.budgets import BudgetBook
from memory_store.calls import CallLog
from memory_store.conservation import Conservation
from memory_store.errors import StoreError, StoreUnavailableError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.namespaces import NamespaceBook
from memory_store.experiences.upkeep import Upkeep
from memory_store.flows import FlowBook
from memory_store.identities import SHARED_PROOF_MS, Identities, Identity, Proof, Role
from memory_store.ledger import SqlLedger
from memory_store.lessons.cases import CaseBook
from memory_store.lessons.ended import EndedSessions
from memory_store.lessons.links import LinkBook
from memory_store.lessons.playbooks import PlaybookBook
from memory_store.lessons.questions import QuestionBook
from memory_store.manifests import ManifestBook
from memory_store.memory_choices import ChoiceLog
from memory_store.notices import NoticeBook
from memory_store.past_calls import PastCalls
from memory_store.prices import PriceBook, PutPrices
from memory_store.principals import Principal, PrincipalBook
from memory_store.productivity import ProductivityBook
from memory_store.reader import Reader
from memory_store.retention import Retention
from memory_store.router_log import RouterLog
from memory_store.router_models import RouterShelf
from memory_store.search.search import ExperienceSearch
from memory_store.sessions import SessionBook
from memory_store.store import Store
from memory_store.tenants import TenantBook
from memory_store.timeline import TimelineBook
from memory_store.tokens import hash_of
from memory_store.turn_book import TurnBook
from memory_store.visits import VisitBook
from memory_store.works import WorkBook
from memory_store.writer import Writer
from runtime.link.client import Link
from runtime.link.house import House
from runtime.link.operations import Operation, Operations
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.guards.gate import ReasoningGate

T = TypeVar("T")

# All that a worker may ask for. What is not named here stays with the process of the ledger:
# budgets, tenants, tokens and prices are changed there alone.
STORE_BOOKS: dict[str, tuple[type, str]] = {
    "ledger": (SqlLedger, "admit forward settle release spawn balances"),
    "calls": (CallLog, "record get bill latest_good"),
    "sessions": (SessionBook, "get close freeze states"),
    "approvals": (ApprovalBook, "open find get take withdraw"),
    "turns": (TurnBook, "past history begin extend mark_cut set_outcome"),
    "flows": (FlowBook, "known mark say"),
    "manifests": (ManifestBook, "all approve"),
    "works": (WorkBook, "all add"),
    "router_log": (RouterLog, "record report calls_of"),
    "router_shelf": (RouterShelf, "standing content"),
    "archive": (Archive, "put read"),
    "experience_search": (ExperienceSearch, "search nearest"),
    "experiences": (
        ExperienceBook,
        """write get content contents proves mark revoke_writer erase neighbours of_session page
        log_since note_use uses_of""",
    ),
    "cases": (CaseBook, "record report readers_of record_of model"),
    "playbooks": (PlaybookBook, "get version all merge history"),
    "questions": (QuestionBook, "note prepared served drop"),
    "namespaces": (NamespaceBook, "find get make limit list granted_to usage"),
    "choices": (ChoiceLog, "record say add that_showed about get learned"),
    "prices": (PriceBook, "stored"),
    "principals": (PrincipalBook, "proof proof_of get create"),
    "notices": (NoticeBook, "tell_denials"),
}
HOUSE_BOOKS: dict[str, tuple[type, str]] = {"house": (House, "session_of gated taken report")}
# Longer than the process of the ledger takes to be back.
PROOF_GRACE_MS = 10_000
# What ends or records what was begun.
_OWED = ("ledger.forward", "ledger.settle", "ledger.release", "calls.record")

# Built once: both ends of a connection compare their editions.
OPERATIONS = Operations({**STORE_BOOKS, **HOUSE_BOOKS}, owed=_OWED)


class _Remote:
    """A book whose allowed methods are asked for over a link; it has no others."""

    def __init__(self, asked: dict[str, Callable[..., Any]]) -> None:
        for name, method in asked.items():
            setattr(self, name, method)


def remote(kind: type[T], book: str, link: Link) -> T:
    """Return the book of that name at the other end, in the shape of its class."""
    allowed = OPERATIONS.of_book[book]
    assert all(hasattr(kind, method) for method in allowed), "the book is of that class"
    return cast("T", _Remote({name: _asked(link, one) for name, one in allowed.items()}))


def absent(kind: type[T]) -> T:  # noqa: ARG001 - says whose shape it has
    """Return what stands for a part that workers do not have: using it is an error."""
    return cast("T", _Remote({}))


def _asked(link: Link, operation: Operation) -> Callable[..., Any]:
    async def ask(*args: Any, **named: Any) -> Any:
        return await link.ask(operation, operation.packed(args, named))

    return ask


class RemotePrincipals(PrincipalBook):
    """Proves tokens at the other end, by their hashes, and remembers that for a second."""

    def __init__(self, link: Link) -> None:
        """Take the link."""
        super().__init__(
            writer=absent(Writer),
            reader=absent(Reader),
            identities=Identities(remembered_ms=SHARED_PROOF_MS),
        )
        self._remote = remote(PrincipalBook, "principals", link)

    async def authenticate(self, secret: str, *, now_ms: int) -> Identity | None:
        """Return whom `secret` stands for, as `PrincipalBook` does.

        While nobody can say, whoever was known a moment ago still is: the ledger lets none of
        their calls run either, and a denial tells a model more than a failed request.
        """
        try:
            return await super().authenticate(secret, now_ms=now_ms)
        except StoreUnavailableError:
            proof = self._identities.get(hash_of(secret), now_ms=now_ms, grace_ms=PROOF_GRACE_MS)
            if proof is None or not proof.holds_at(now_ms):
                raise
            return proof.identity

    async def proof(self, secret_hash: str) -> Proof | None:
        """Return whom the secret of that hash stands for."""
        return await self._remote.proof(secret_hash)

    async def proof_of(self, principal_id: PrincipalId, *, key: str) -> Proof | None:
        """Return what stands for a proof of that principal."""
        return await self._remote.proof_of(principal_id, key=key)

    async def create(
        self,
        principal_id: PrincipalId,
        *,
        tenant: TenantId,
        name: str,
        role: Role,
        by: Actor,
        now_ms: int,
    ) -> Principal:
        """Return the new principal: an agent that an authorization server vouches for."""
        return await self._remote.create(
            principal_id, tenant=tenant, name=name, role=role, by=by, now_ms=now_ms
        )

    async def get(self, principal_id: PrincipalId) -> Principal:
        """Return the principal of that id."""
        return await self._remote.get(principal_id)


class RemotePrices(PriceBook):
    """Knows the latest price list as of when it was read last."""

    def __init__(self, link: Link) -> None:
        """Take the link."""
        super().__init__(writer=absent(Writer), reader=absent(Reader))
        self._remote = remote(PriceBook, "prices", link)

    async def stored(self) -> PutPrices:
        """Return what was put last."""
        return await self._remote.stored()


class RemoteGate(ReasoningGate):
    """The gate that all workers share: a challenge is answered once, whoever is asked."""

    def __init__(self, house: House) -> None:
        """Take who remembers."""
        self._house = house

    async def ask(self, terms: GateTerms, agent: PrincipalId, *, rule: str) -> Denied | None:
        """Return the challenge for an agent that comes to the gate of a rule, None to let pass.

        Raises:
            LedgerUnavailableError: nobody can say whether it may.
        """
        try:
            return await self._house.gated(terms, agent, rule=rule)
        except StoreError as error:
            raise LedgerUnavailableError from error

    async def take(self, agent: PrincipalId, challenge: str, answer: str) -> str | None:
        """Take an answer; return why it is not taken, None if the agent may pass now.

        Raises:
            LedgerUnavailableError: nobody can say whether the challenge was used before.
        """
        try:
            return await self._house.taken(agent, challenge=challenge, answer=answer)
        except StoreError as error:
            raise LedgerUnavailableError from error


def remote_store(link: Link, *, bulk: Link) -> Store:
    """Return the store at the other end; large contents and reads go over the link `bulk`.

    It is shared: what other workers do to it is looked for as with replicas on a server.
    """
    return Store(
        ledger=remote(SqlLedger, "ledger", link),
        calls=remote(CallLog, "calls", link),
        sessions=remote(SessionBook, "sessions", link),
        approvals=remote(ApprovalBook, "approvals", link),
        turns=remote(TurnBook, "turns", link),
        flows=remote(FlowBook, "flows", link),
        principals=RemotePrincipals(link),
        manifests=remote(ManifestBook, "manifests", bulk),
        works=remote(WorkBook, "works", bulk),
        router_log=remote(RouterLog, "router_log", bulk),
        router_shelf=remote(RouterShelf, "router_shelf", bulk),
        archive=remote(Archive, "archive", bulk),
        experiences=remote(ExperienceBook, "experiences", bulk),
        experience_search=remote(ExperienceSearch, "experience_search", bulk),
        cases=remote(CaseBook, "cases", bulk),
        playbooks=remote(PlaybookBook, "playbooks", bulk),
        questions=remote(QuestionBook, "questions", bulk),
        ended=absent(EndedSessions),
        links=absent(LinkBook),
        namespaces=remote(NamespaceBook, "namespaces", bulk),
        choices=remote(ChoiceLog, "choices", bulk),
        prices=RemotePrices(bulk),
        productivity=absent(ProductivityBook),
        budgets=absent(BudgetBook),
        tenants=absent(TenantBook),
        retention=absent(Retention),
        upkeep=absent(Upkeep),
        audit=absent(AuditLog),
        notices=remote(NoticeBook, "notices", bulk),
        past_calls=absent(PastCalls),
        timelines=absent(TimelineBook),
        visits=absent(VisitBook),
        writer=absent(Writer),
        reader=absent(Reader),
        bookkeeping=absent(Bookkeeping),
        conservation=absent(Conservation),
        is_shared=True,
    )


def books_of(store: Store, house: House) -> dict[str, object]:
    """Return what a process answers with.

    Of a store that others write too, nothing: they are to ask the server themselves.
    """
    held = {} if store.is_shared else {name: getattr(store, name) for name in STORE_BOOKS}
    return {**held, "house": house}

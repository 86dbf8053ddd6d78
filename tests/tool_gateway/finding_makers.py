"""A gateway with a few tools to find, over the fakes."""

from collections.abc import Mapping, Sequence

from governor.ids import PrincipalId, SessionId, TenantId, ToolName, UpstreamName
from governor.policy import Policy
from governor.scope import ScopeChain
from tests.tool_gateway.makers import RULE, FakeClock, House
from tests.tool_gateway.spawn_makers import NoSubSessions
from tool_gateway.builtin import BUILTIN, ENTRIES, Builtins
from tool_gateway.catalog import ToolEntry, exposed_name
from tool_gateway.discovery import definitions
from tool_gateway.discovery.answers import Answers
from tool_gateway.discovery.finder import Finder, VectorSource
from tool_gateway.discovery.listing import WHOLE_LIST, ListTerms
from tool_gateway.gateway import Gateway
from tool_gateway.identity import CallContext, Caller
from tool_gateway.memory.tools import MemoryTools
from tool_gateway.ports import Clock
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.spawning import Spawning
from tool_gateway.stock import Stock

ADA = Caller(tenant=TenantId("acme"), agent=PrincipalId("ada"), token_id="tok_ada")
EVE = Caller(tenant=TenantId("other"), agent=PrincipalId("eve"), token_id="tok_eve")
CONTEXT = CallContext(session_name="one", turn=None, idempotency_key=None)
EVERYTHING = Policy(version="v1", rules=(), fallback=RULE)
SEARCHERS = [entry for entry in ENTRIES if entry.exposed in definitions.NAMES]

TOOLS = {
    "files/read_file": "Read the whole content of a file.",
    "files/write_file": "Write text to a file; an older one is replaced.",
    "files/list_directory": "List what a directory holds.",
    "mail/send_message": "Send a mail to one or more people.",
    "mail/search_messages": "Search the mailbox for messages.",
    "charts/bar_chart": "Draw a chart with bars.",
    "charts/pie_chart": "Draw a chart like a cake.",
    "weather/forecast": "Tell the weather of the coming days at a place.",
}


def an_entry(path: str, description: str = "", **schema: object) -> ToolEntry:
    """Return the entry of a tool given as server/name."""
    server, name = path.split("/")
    upstream = UpstreamName(server)
    return ToolEntry(
        exposed=exposed_name(upstream, name),
        original=name,
        backend=upstream,
        definition={
            "name": name,
            "description": description,
            "inputSchema": schema or {"type": "object"},
        },
    )


def entries_of(tools: Mapping[str, str]) -> list[ToolEntry]:
    return [an_entry(path, description) for path, description in tools.items()]


def chain_of(caller: Caller, session: str = "one") -> ScopeChain:
    return ScopeChain(
        tenant=caller.tenant, agent=caller.agent, session=SessionId(f"{caller.agent}/{session}")
    )


def a_finder(
    *,
    stock: Stock | None = None,
    house: House | None = None,
    policy: Policy = EVERYTHING,
    clock: Clock | None = None,
    vectors: VectorSource = lambda: None,
    terms: ListTerms = WHOLE_LIST,
) -> Finder:
    """Return a finder over the tools above, or over `stock`."""
    if stock is None:
        stock = Stock(SEARCHERS)
        stock.replace(entries_of(TOOLS))
    return Finder(
        stock=stock,
        policy=(lambda: policy) if house is None else (lambda: house.policy),
        clock=clock or (FakeClock() if house is None else house.clock),
        vectors=vectors,
        terms=terms,
    )


class FindingHouse:
    """A house whose gateway serves the tools above and finds them."""

    def __init__(
        self,
        house: House,
        *,
        tools: Sequence[ToolEntry] | None = None,
        terms: ListTerms = WHOLE_LIST,
    ) -> None:
        self.house = house
        self.stock = Stock(SEARCHERS)
        self.stock.replace(entries_of(TOOLS) if tools is None else tools)
        self.finder = a_finder(stock=self.stock, house=house, terms=terms)
        builtins = Builtins(
            memories=MemoryTools(archive=house.archive),
            books=house.books,
            turns=house.turns,
            policy=lambda: house.policy,
            spawning=Spawning(NoSubSessions()),
            answers=Answers(self.finder),
        )
        backends = {entry.backend: house.backend for entry in self.stock.catalog}
        self.gateway = Gateway(
            stock=self.stock,
            pipeline=house.pipeline,
            books=house.books,
            backends={**backends, BUILTIN: builtins},
            policy=lambda: house.policy,
            sessions=ImplicitSessions(clock=house.clock, idle_ms=1_000),
            session_naming=lambda agent, name: SessionId(f"{agent}/{name}"),
            clock=house.clock,
            finder=self.finder,
        )

    async def found(self, query: str, *, caller: Caller = ADA, limit: int = 5) -> list[str]:
        """Return the names that tools_search shows."""
        answer = await self.gateway.call(
            caller, CONTEXT, tool=definitions.SEARCH, arguments={"query": query, "limit": limit}
        )
        assert isinstance(answer.structured, dict), answer
        return [tool["name"] for tool in answer.structured["tools"]]

    async def listed(self, caller: Caller = ADA) -> list[ToolName]:
        """Return the names of the list that a caller gets."""
        return [at.entry.exposed for at in await self.gateway.listed_for(caller, CONTEXT)]

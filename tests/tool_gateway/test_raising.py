"""More memory for a command that runs: what it may cost is held until the call is settled."""

from dataclasses import dataclass, replace
from typing import cast

import pytest

from governor.amounts import Unit
from governor.call import Enforcement, Isolated
from governor.events import Released, Reserved, Settled
from governor.ids import CallId, SessionId
from governor.ladder import Sight
from governor.limits import Isolation
from governor.raising import AskTerms, MemoryAnswer, MemoryQuestion, WhoIsAsked
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, LIMITS, RULE, House, a_call, measured
from tool_gateway.exchange import Nobody, Wishes
from tool_gateway.results import BUDGET_META, Json, Outcome, ToolResult, text_result

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
WALL_MS = 10_000
# Ten seconds of 10 MiB are held for the call, as much again for its raise.
CALL = CallId("call_1")
LIMIT_BYTES = 10 * MIB
MEMORY = budget("memory", memory_mib_s=300)
QUESTION = MemoryQuestion(
    call=CALL,
    number=1,
    limit_bytes=LIMIT_BYTES,
    used_bytes=LIMIT_BYTES,
    peak_bytes=None,
    ceiling_bytes=10 * LIMIT_BYTES,
    wall_left_ms=WALL_MS,
    is_stuck=False,
    culprit=None,
)
WITHIN = Isolated(enforcement=Enforcement.ENFORCED, contained=True, by="cgroup", why="")


@dataclass
class Client(Nobody):
    """A client that raises whatever it is asked about."""

    wishes = Wishes(capabilities={"elicitation": {}}, meta={}, extras={})
    session: SessionId | None = CHAIN.session

    async def ask(self, method: str, params: Json) -> Json:
        assert (method, params["mode"]) == ("elicitation/create", "form")
        return {"action": "accept", "content": {"answer": "raise", "memory_mib": 1_000_000}}


class Raised(House):
    """A house in which a command asks for more memory, gets it, and uses it."""

    def __init__(self, *, used_mib_s: int) -> None:
        super().__init__(MEMORY, behave=self.behave, asks=AskTerms(who=WhoIsAsked.AGENT))
        self.used_mib_s = used_mib_s
        self.answers: list[MemoryAnswer] = []
        limits = replace(LIMITS, memory_bytes=LIMIT_BYTES, wall_ms=WALL_MS)
        rule = replace(RULE, limits=limits, isolation=Isolation.BEST_EFFORT)
        self.policy = replace(self.policy, rules=(rule,))
        self.backend.unmeasurable = {}
        self.backend.isolated = WITHIN

    async def behave(self) -> Outcome:
        assert self.memory is not None
        assert self.memory.asks(CALL)
        self.answers.append(await self.memory.ask(QUESTION))
        usage = measured(memory_mib_s=self.used_mib_s)
        return Outcome(result=text_result("done"), usage=usage)

    async def asked(self) -> ToolResult:
        return await self.pipeline.run(
            a_call(CALL),
            session_name="one",
            entry=self.entry,
            backend=self.backend,
            exchange=Client(),
        )


async def test_a_raise_is_no_more_than_what_is_held_for_it() -> None:
    house = Raised(used_mib_s=150)

    await house.asked()

    (answer,) = house.answers
    assert (answer.sight, answer.memory_bytes) == (Sight.RAISED, 2 * LIMIT_BYTES)
    held = [event.amount for event in house.ledger.events if isinstance(event, Reserved)]
    assert [amount.of(Unit.MEMORY_MIB_S) for amount in held] == [100, 100]


@pytest.mark.requirement("ladder.budget-bounds-a-raise")
async def test_what_a_raise_holds_is_given_to_nobody_before_the_call_is_charged() -> None:
    house = Raised(used_mib_s=190)

    result = await house.asked()

    # Between its release and the settlement another call could be admitted to what was used.
    ends = [event for event in house.ledger.events if not isinstance(event, Reserved)]
    assert [type(event) for event in ends] == [Settled, Released]
    assert house.ledger.remaining(Unit.MEMORY_MIB_S) == 300 - 190
    # What the model is told leaves out what was held beside its call.
    (told,) = cast("list[dict[str, int]]", result.meta[BUDGET_META])
    assert (told["remaining"], told["reserved"]) == (300 - 190, 0)

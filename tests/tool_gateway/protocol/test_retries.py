"""A call that brings what its server asked for: the same arguments, and yet no repetition."""

from dataclasses import replace

import pytest

from governor.loops import BREAKER
from governor.policy import CacheTerms, ToolRule
from tests.governor.makers import budget
from tests.tool_gateway.makers import ENTRY, RULE, House, a_call
from tool_gateway.results import DENIAL_META, Outcome, ToolResult, text_result

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("protocol.any-era-with-any-era")]
READ = replace(ENTRY, definition={**ENTRY.definition, "annotations": {"readOnlyHint": True}})
QUESTION = ToolResult(content=(), extra={"resultType": "input_required", "requestState": "s"})


class Server:
    """Asks first, and answers the retry."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> Outcome:
        self.times += 1
        asks = self.times % 2
        return Outcome(result=QUESTION if asks else text_result(f"answer {self.times}"))


@pytest.mark.parametrize(
    "rule",
    [
        replace(RULE, loops=None, cache=CacheTerms(ttl_ms=100_000)),
        replace(RULE, loops=replace(BREAKER, is_repeatable=True)),
    ],
    ids=["cache", "loops"],
)
async def test_a_retry_reaches_the_server_whatever_was_answered_before(rule: ToolRule) -> None:
    server = Server()
    house = House(budget("calls", tool_calls=50), rule=rule, behave=server)
    house.entry = READ

    async def run(*, is_retry: bool) -> ToolResult:
        return await house.pipeline.run(
            a_call(house.clock.fresh("call"), path="/a"),
            session_name="one",
            entry=house.entry,
            backend=house.backend,
            is_retry=is_retry,
        )

    asked = await run(is_retry=False)
    answered = await run(is_retry=True)
    again = await run(is_retry=False)

    assert (asked.is_interim, answered.sole_text) == (True, "answer 2")
    assert again.is_interim, "a question is not kept for the next one who asks"
    assert server.times == 3


async def test_many_rounds_are_no_loop() -> None:
    async def ask() -> Outcome:
        return Outcome(result=QUESTION)

    house = House(budget("calls", tool_calls=50), rule=replace(RULE, loops=BREAKER), behave=ask)

    results = [
        await house.pipeline.run(
            a_call(house.clock.fresh("call"), path="/a"),
            session_name="one",
            entry=house.entry,
            backend=house.backend,
            is_retry=True,
        )
        for _ in range(BREAKER.pause + 1)
    ]

    assert not [one for one in results if DENIAL_META in one.meta]

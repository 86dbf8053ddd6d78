from dataclasses import replace

import pytest

from tests.governor.makers import budget
from tests.tool_gateway.makers import ENTRY, RULE, FakeArchive, FakeClock, House, a_call
from tool_gateway.keeping import ResultKeeper
from tool_gateway.results import ARCHIVE_META, Outcome, ToolResult, text_result

pytestmark = pytest.mark.anyio
SHORT = replace(RULE, archive_above_bytes=1024)


@pytest.mark.requirement("protocol.sole-upstream-is-shown-as-it-is")
@pytest.mark.parametrize("can_be_read_on", [True, False])
async def test_nothing_is_cut_for_a_client_that_cannot_read_on(*, can_be_read_on: bool) -> None:
    archive, house = FakeArchive(), House(budget("calls", tool_calls=10))
    keeper = ResultKeeper(
        archive=archive, ledger=house.ledger, clock=FakeClock(), can_be_read_on=can_be_read_on
    )

    whole = text_result("x" * 5000)
    kept = await keeper.keep(whole, call=a_call(), entry=ENTRY, rule=SHORT)

    assert len(archive.kept) == 1
    assert kept.result.meta[ARCHIVE_META]["cut"] is can_be_read_on  # type: ignore[index]
    assert (kept.result.content == whole.content) is not can_be_read_on


async def test_a_question_is_replayed_as_a_question() -> None:
    """A client that lost the answer to its keyed call is asked the same again."""
    question = {"resultType": "input_required", "inputRequests": {"q": {"method": "roots/list"}}}

    async def ask() -> Outcome:
        return Outcome(result=ToolResult(content=(), extra=question))

    house = House(budget("calls", tool_calls=10), behave=ask)
    first = await house.run(a_call("call_1", key="k"))
    again = await house.run(a_call("call_2", key="k"))

    assert (first.is_interim, first.to_wire().get("content")) == (True, None)
    assert {key: again.extra.get(key) for key in question} == question
    assert len(house.backend.ran) == 1

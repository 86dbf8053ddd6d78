"""Whom an upstream's question belongs to, where a connection carries many requests."""

from contextlib import ExitStack
from contextvars import copy_context
from typing import Any, cast

import mcp_types
import pytest
from mcp.client.session import ClientRequestContext

from tool_gateway.exchange import NOBODY, Patience, Wishes
from tool_gateway.results import Json
from tool_gateway.upstreams.questions import Questions, Serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.requirement("protocol.questions-reach-who-caused-them"),
]
CONTEXT = cast("ClientRequestContext", None)
FORM = mcp_types.ElicitRequestFormParams(
    message="?", requested_schema={"type": "object", "properties": {}}
)


class Person:
    """A client whose person answers everything with their name."""

    session = None

    def __init__(self, name: str, capabilities: Json | None = None) -> None:
        self.name = name
        declared = {"elicitation": {}} if capabilities is None else capabilities
        self.wishes = Wishes(capabilities=declared, meta={}, extras={})
        self.told: list[str] = []

    async def notify(self, method: str, params: Json) -> None:
        self.told.append(method)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        raise AssertionError

    async def ask(self, method: str, params: Json) -> Json:
        return {"action": "accept", "content": {"name": self.name}}


def serving(person: Any) -> Serving:
    return Serving(exchange=person, patience=Patience(1_000))


async def test_the_only_request_in_flight_caused_the_question() -> None:
    questions = Questions()

    with questions.serving(serving(Person("Ada"))):
        # Another task of the connection: it knows of no request.
        answer = await questions.elicitation(CONTEXT, FORM)

    assert isinstance(answer, mcp_types.ElicitResult)
    assert answer.content == {"name": "Ada"}


async def test_of_two_requests_in_flight_neither_client_is_asked() -> None:
    questions, ada, bob = Questions(), Person("Ada"), Person("Bob")
    outside = copy_context()

    with ExitStack() as stack:
        for person in (ada, bob):
            stack.enter_context(questions.serving(serving(person)))
        log = mcp_types.LoggingMessageNotificationParams(level="info", data="secret")
        cause = outside.run(lambda: questions.cause)
        outside.run(drive, questions.log(log))

    assert cause is None
    assert ada.told == bob.told == []


def drive(work: Any) -> None:
    """Run what never waits."""
    with pytest.raises(StopIteration):
        work.send(None)


async def test_a_message_that_names_its_request_needs_no_guess() -> None:
    questions, ada = Questions(), Person("Ada")

    with questions.serving(serving(Person("Bob"))), questions.serving(serving(ada)):
        answer = await questions.elicitation(CONTEXT, FORM)

    assert isinstance(answer, mcp_types.ElicitResult)
    assert answer.content == {"name": "Ada"}


async def test_a_question_that_nobody_caused_is_refused_in_words() -> None:
    answer = await Questions().elicitation(CONTEXT, FORM)

    assert isinstance(answer, mcp_types.ErrorData)
    assert 'share = "session"' in answer.message


@pytest.mark.parametrize("person", [Person("Ada", {}), NOBODY])
async def test_a_client_that_declared_nothing_is_asked_nothing(person: Any) -> None:
    questions = Questions()

    with questions.serving(serving(person)):
        answer = await questions.elicitation(CONTEXT, FORM)

    assert isinstance(answer, mcp_types.ErrorData)
    assert "does not support elicitation/create" in answer.message


async def test_an_answer_of_another_shape_reaches_no_server() -> None:
    class Odd(Person):
        async def ask(self, method: str, params: Json) -> Json:
            return {"action": "perhaps"}

    questions = Questions()
    with questions.serving(serving(Odd("Eve"))):
        answer = await questions.elicitation(CONTEXT, FORM)

    assert isinstance(answer, mcp_types.ErrorData)
    assert "another shape" in answer.message

import anyio
import pytest

from tests.proof.virtual_time import run_virtually
from tool_gateway.changes import Change, ChangeKind, Changes, Watches
from tool_gateway.exchange import NOBODY, AskRefusedError, Patience, Wishes

pytestmark = pytest.mark.anyio


def test_the_limit_stands_still_while_a_client_is_asked() -> None:
    async def work() -> None:
        patience = Patience(50)
        with patience.limited():
            await anyio.sleep(0.04)
            with patience.asking():
                with patience.asking():
                    await anyio.sleep(0.06)
                await anyio.sleep(0.06)

        assert patience.asked_s == pytest.approx(0.12)

    run_virtually(0, work)


def test_the_limit_goes_on_where_it_stood() -> None:
    async def work(patience: Patience) -> None:
        with patience.limited():
            await anyio.sleep(0.02)
            with patience.asking():
                await anyio.sleep(1)
            await anyio.sleep_forever()

    async def limited() -> None:
        patience = Patience(50)
        with pytest.raises(TimeoutError):
            await work(patience)

        assert patience.asked_s == pytest.approx(1)
        assert anyio.current_time() == pytest.approx(1.05)

    run_virtually(0, limited)


async def test_what_was_waited_for_before_the_work_is_part_of_its_time() -> None:
    patience = Patience(1_000)
    ends_at = patience.ends_at

    await anyio.sleep(0.01)
    with patience.limited():
        deadline = anyio.current_effective_deadline()

    assert deadline == ends_at


async def test_nobody_can_be_asked() -> None:
    with pytest.raises(AskRefusedError):
        await NOBODY.ask("roots/list", {})
    await NOBODY.notify("notifications/message", {})


def test_a_client_can_be_asked_what_it_declared() -> None:
    wishes = Wishes(capabilities={"elicitation": {}}, meta={}, extras={})

    assert wishes.can_be_asked
    assert wishes.can_answer("elicitation/create")
    assert not wishes.can_answer("sampling/createMessage")
    assert not wishes.can_answer("anything/else")


def test_a_page_is_shown_only_by_clients_that_said_so() -> None:
    forms = Wishes(capabilities={"elicitation": {}}, meta={}, extras={})
    pages = Wishes(capabilities={"elicitation": {"url": {}}}, meta={}, extras={})

    assert forms.can_answer("elicitation/create", "form")
    assert not forms.can_answer("elicitation/create", "url")
    assert pages.can_answer("elicitation/create", "url")
    assert not pages.can_answer("elicitation/create", "form")


def test_whoever_no_longer_listens_is_told_nothing() -> None:
    changes, heard = Changes(), list[Change]()

    with changes.heard_by(heard.append):
        changes.publish(Change(kind=ChangeKind.TOOLS))
    changes.publish(Change(kind=ChangeKind.PROMPTS))

    assert heard == [Change(kind=ChangeKind.TOOLS)]


async def test_an_upstream_is_told_of_the_first_and_the_last_who_watch() -> None:
    watches, told = Watches(), list[str]()

    async def begin(uri: str) -> None:
        told.append(f"+{uri}")

    async def end(uri: str) -> None:
        told.append(f"-{uri}")

    for _ in range(3):
        await watches.add("a", begin)
    for _ in range(3):
        await watches.remove("a", end)

    assert told == ["+a", "-a"]


async def test_a_watch_that_is_refused_is_not_counted() -> None:
    watches, told = Watches(), list[str]()

    async def refuse(uri: str) -> None:
        raise LookupError(uri)

    async def begin(uri: str) -> None:
        told.append(uri)

    with pytest.raises(LookupError):
        await watches.add("a", refuse)
    await watches.add("a", begin)

    assert told == ["a"]

"""What administrators teach, where a session is told where it stands."""

import anyio
import pytest

from tests.runtime.memory.house import House
from tests.runtime.memory.test_adopted import the_admin

pytestmark = pytest.mark.anyio
LESSON = "Never deploy the kiosk before the tide table is read."


@pytest.mark.requirement("memory.only-the-house-instructs")
async def test_a_lesson_that_was_taught_stands_among_the_instructions_of_a_context(
    house: House,
) -> None:
    asked = {"focus": "deploy the kiosk by the tide table", "max_tokens": 600}
    with anyio.fail_after(60):
        async with the_admin(house) as admin:
            taught = await admin.post("/admin/v1/memory/experiences", json={"content": LESSON})
        assert taught.status_code == 201, taught.text
        noted = await house.kept("Somebody deployed the kiosk and saw the tide table.")
        answer = await house.post("context", asked, **{"Flyball-Session": "another"})

    shape = answer.json()
    index = taught.json()["index"]
    assert {"index": index, "text": LESSON} in shape["instructions"]
    assert index not in str(shape["rooms"])
    assert noted["index"] in str(shape["rooms"]["found"])
    assert shape["tokens"] <= 600
    section = shape["rendered"].partition("Data quoted from memory")[0]
    assert LESSON in section

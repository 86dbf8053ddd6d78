"""What readings of the memory are bound to, and what stays of what is erased or switched off."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from governor.experience.tokens import tokens_of
from governor.flow.labels import Label
from governor.ids import PrincipalId, ToolName
from memory_store.sessions import session_id_for
from tests.runtime.memory.house import BY, House, a_sidecar, settled_in

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
KEY = "The deploy key of the billing service is rotated on the first Monday.\n"


@pytest.mark.requirement("memory.grep")
async def test_a_search_of_lines_begins_where_it_is_asked_to(house: House) -> None:
    kept = await house.kept("alpha one\nbeta two\nalpha three\n")

    found = (await house.get(f"experiences/{kept['index']}", grep="alpha", offset=10)).json()

    assert (found["content"], found["offsets"]) == ("2:alpha three", {"2": 19})
    assert (found["offset"], found["next_offset"]) == (10, None)


@pytest.mark.requirement("memory.bounded")
@pytest.mark.parametrize("bounds", [{"max_bytes": 4}, {"max_bytes": 600}, {"max_tokens": 300}])
async def test_matching_lines_are_no_more_tokens_than_were_held(
    house: House, bounds: dict[str, int]
) -> None:
    line = "the billing service was rotated by nobody at all"
    kept = await house.kept("\n".join(f"{number} {line}" for number in range(150)))

    found = await house.get(
        f"experiences/{kept['index']}", grep="rotated", max_matches=200, **bounds
    )

    shown = found.json()
    held = bounds.get("max_tokens", bounds.get("max_bytes", 0))
    assert tokens_of(shown["content"]) + tokens_of(json.dumps(shown["offsets"])) <= held + 1
    assert shown["flyball"]["call"]["usage"]["memory_read_tokens"] <= held
    assert shown["matches"] == 150
    assert len(shown["offsets"]) == shown["content"].count("nobody at all")


@pytest.mark.requirement("memory.charged")
@pytest.mark.parametrize("more", [{}, {"encoding": "base64"}])
async def test_a_range_of_bytes_is_charged_at_all_the_tokens_that_it_is(
    house: House, more: dict[str, str]
) -> None:
    kept = await house.kept("A1" * 2000)

    read = await house.get(f"experiences/{kept['index']}", max_bytes=4000, **more)

    usage = read.json()["flyball"]["call"]["usage"]
    assert usage["memory_read_tokens"] == tokens_of(read.json()["content"])


@pytest.mark.requirement("memory.refused-clearly")
@pytest.mark.parametrize("name", ["grep", "ignore_case", "context_lines", "max_matches"])
async def test_the_bytes_themselves_are_not_searched(house: House, name: str) -> None:
    kept = await house.kept(KEY)

    answer = await house.get(f"experiences/{kept['index']}/content", **{name: "1"})

    assert answer.status_code == 422
    assert name in answer.json()["detail"]


@pytest.mark.requirement("memory.forget-own")
async def test_what_is_erased_is_in_no_file_and_no_answer_kept_for_a_retry(house: House) -> None:
    word = f"zyzzyva{house.suffix}"
    wrote = await house.post(
        "experiences", {"content": f"The {word} sings.", "tags": [word]}, **{"Idempotency-Key": "w"}
    )
    index = wrote.json()["index"]
    again = await house.post(
        "experiences", {"content": f"The {word} sings.", "tags": [word]}, **{"Idempotency-Key": "w"}
    )
    key = {"Idempotency-Key": "r"}
    async with house.client() as client:
        read = await client.get(f"/memory/v1/experiences/{index}", headers=key)
        found = await house.post("search", {"query": word}, **{"Idempotency-Key": "s"})
        await client.delete(f"/memory/v1/experiences/{index}")
        read_later = await client.get(f"/memory/v1/experiences/{index}", headers=key)
    found_later = await house.post("search", {"query": word}, **{"Idempotency-Key": "s"})
    retried = await house.post(
        "experiences", {"content": f"The {word} sings.", "tags": [word]}, **{"Idempotency-Key": "w"}
    )

    assert {key: again.json()[key] for key in wrote.json() if key != "flyball"} == {
        key: value for key, value in wrote.json().items() if key != "flyball"
    }
    assert word in read.text
    assert word in found.text
    assert (read_later.status_code, found_later.json()["hits"]) == (404, [])
    assert (retried.json()["index"], retried.json()["summary"]) == (index, "")
    assert await house.kept_anywhere(word) == []


@pytest.mark.requirement("memory.reloaded")
async def test_what_the_file_says_of_namespaces_counts_from_the_next_reload_on(
    tmp_path: Path,
) -> None:
    text = "[memory]\n"

    async with a_sidecar(tmp_path, text, reread=lambda: text) as sidecar:
        house = await settled_in(sidecar, "team")
        unknown = await house.post("experiences", {"content": "x", "namespace": "team/red"})
        await house.kept("y" * 500)

        text = (
            '[memory]\nnamespace_bytes_max = 600\n[[memory.namespace]]\nname = "team/red"\n'
            'writers = ["ada-team"]\nbytes_max = 100\n'
        )
        reloaded = await sidecar.reload(by=BY)
        await house.kept("x" * 90, namespace="team/red")
        full = await house.post("experiences", {"content": "x" * 20, "namespace": "team/red"})
        own_full = await house.post("experiences", {"content": "y" * 200})

        text = text.replace("bytes_max = 100", "bytes_max = 200").replace("= 600", "= 900")
        await sidecar.reload(by=BY)
        more = await house.post("experiences", {"content": "x" * 20, "namespace": "team/red"})
        own_more = await house.post("experiences", {"content": "y" * 200})

        text = "[memory]\nenabled = false\n"
        off = await sidecar.reload(by=BY)
        still = await house.found("x")

    assert unknown.status_code == 422
    assert (reloaded.applied, reloaded.needs_restart) == (("memory",), ())
    assert [full.status_code, own_full.status_code] == [422, 422]
    assert "at most 100" in full.json()["detail"]
    assert [more.status_code, own_more.status_code] == [201, 201]
    assert "memory.enabled" in off.needs_restart
    assert "hits" in still


@pytest.mark.requirement("memory.reloaded")
async def test_a_memory_that_is_switched_off_says_so(tmp_path: Path) -> None:
    async with a_sidecar(tmp_path, "[memory]\nenabled = false") as sidecar:
        house = await settled_in(sidecar, "off")
        answers = [
            await house.post("search", {"query": "x"}),
            await house.get("experiences/exp_a/content"),
        ]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert all("switched off" in answer.json()["detail"] for answer in answers)


@pytest.mark.requirement("memory.marks-what-it-shows")
async def test_an_index_that_there_is_not_shows_nothing_and_marks_nothing(house: House) -> None:
    missed = [
        (await house.get(f"experiences/{index}")).status_code for index in ("nonsense", "exp_no")
    ]
    kept = await house.kept("Still my own words.")

    assert missed == [404, 404]
    assert kept["lane"] == "agent"


@pytest.mark.requirement("memory.bounded")
async def test_what_is_found_says_how_it_went_and_until_when_it_was_true(house: House) -> None:
    await house.kept("Deploying harbour by hand.", kind="case", outcome=0.0)
    await house.kept("Harbour is led by Ada.", valid_from_ms=1, valid_until_ms=86_400_000)

    cases = await house.found("harbour", kinds=["case"])
    facts = await house.found("who leads harbour", kinds=["observation"])

    assert [hit["outcome"] for hit in cases["hits"]] == ["negative"]
    assert "went wrong" in cases["rendered"]
    assert [hit["valid_until_ms"] for hit in facts["hits"]] == [86_400_000]
    assert "1970-01-02" in facts["rendered"]


@pytest.mark.requirement("memory.lanes-asked")
async def test_a_session_finds_what_it_kept_itself_in_every_lane(house: House) -> None:
    note = "Page of strangers: the harbour opens at nine."
    seen = session_id_for(PrincipalId(f"ada-{house.suffix}"), "s1")
    marks = {Label.SEES_UNTRUSTED: ToolName("web__fetch")}
    await house.sidecar.store.flows.mark(seen, marks, now_ms=1)
    kept = await house.kept(note)

    own = await house.found("harbour opens", this_session=True)
    async with house.client(session="other") as client:
        asked = {"query": "harbour opens"}
        other = (await client.post("/memory/v1/search", json=asked)).json()

    assert kept["lane"] == "web"
    assert [hit["index"] for hit in own["hits"]] == [kept["index"]]
    assert (other["hits"], other["lanes_not_searched"]) == ([], ["web"])
    assert '"web"' in other["rendered"]


@pytest.mark.requirement("memory.full-disk")
async def test_a_full_disk_is_told_to_whoever_writes_and_nothing_half_is_kept(
    house: House,
) -> None:
    first = await house.kept("before the disk was full")
    pages = await _pragma(house, "page_count")
    await _pragma(house, f"max_page_count = {pages}")
    try:
        answers = [
            await house.post("experiences", {"content": f"{number} " + "x" * 4_000})
            for number in range(12)
        ]
    finally:
        await _pragma(house, "max_page_count = 1073741823")
    after = await house.kept("after it was full")
    listed = (await house.get("experiences", limit=50)).json()["items"]

    stored = [answer.json()["index"] for answer in answers if answer.status_code == 201]
    assert len(stored) < len(answers)
    for answer in answers:
        problem = answer.json()
        denial = problem.get("flyball", {}).get("denial", {})
        # Where not even a hold can be kept, nothing is begun.
        is_denied = answer.status_code == 429 and denial["reason"] == "ledger_unavailable"
        assert is_denied or answer.status_code in {201, 503}, problem
        assert answer.status_code == 201 or "try again" in problem["detail"].lower()
    assert {one["index"] for one in listed} == {first["index"], after["index"], *stored}


async def _pragma(house: House, words: str) -> int:
    statement = text(f"PRAGMA {words}")
    run = house.sidecar.store.writer.run
    return await run(lambda connection: connection.scalar(statement) or 0)

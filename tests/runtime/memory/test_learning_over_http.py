"""What a team shares, and how well is searched, as agents meet it over HTTP."""

import pytest

from tests.runtime.memory.house import House

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FACT = "The staging database of the harbour service is refreshed at four in the morning.\n"


@pytest.mark.requirement("memory.sharing-links")
async def test_a_team_finds_what_one_of_it_shared_and_the_same_only_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a few in a hundred the other way is tried out; here what is believed decides.
    monkeypatch.setattr("governor.experience.sharing.dice_of", lambda *_: 0.5)
    kept = await house.kept(FACT, namespace="team/green")
    again = await house.kept(FACT, agent="bob", namespace="team/green")

    found = await house.found("staging database harbour", agent="bob", namespaces=["team/green"])
    outside = await house.post(
        "search", {"query": "staging database", "namespaces": ["team/green"]}, agent="eve"
    )

    assert (kept["shared"], kept["namespace"]) == ("enters", "agent")
    assert (again["shared"], again["shared_as"]) == ("linked", kept["shared_as"])
    assert [hit["index"] for hit in found["hits"]] == [kept["shared_as"]]
    assert found["hits"][0]["text"] == FACT
    assert outside.json().get("hits", []) == []
    # What is kept twice is charged twice, and what was in the bank already once.
    charged = [one["flyball"]["call"]["usage"] for one in (kept, again)]
    assert [one["memory_bytes"] for one in charged] == [2 * len(FACT), len(FACT)]
    assert [one["memory_writes"] for one in charged] == [2, 1]


@pytest.mark.requirement("memory.tier-forced")
async def test_a_search_shows_as_much_as_its_tier_is_for(house: House) -> None:
    for number in range(8):
        await house.kept(f"Berth {number} of the marina is let to boat number {number}.")

    few = await house.found("which berth of the marina is let", tier="low", limit=6)
    usual = await house.found("which berth of the marina is let", tier="mid", limit=6)
    chosen = await house.found("which berth of the marina is let", limit=6)

    assert len(few["hits"]) == 2
    assert len(usual["hits"]) == 6
    assert [hit["index"] for hit in chosen["hits"]] == [hit["index"] for hit in usual["hits"]]

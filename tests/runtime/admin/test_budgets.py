from typing import Any

import pytest

from governor.amounts import Amounts, Unit
from governor.budget import Budget
from governor.denial import Denied
from governor.events import Reserved
from governor.ids import BudgetId
from governor.scope import ScopeKind
from governor.window import Lifetime
from memory_store.audit import Actor
from tests.runtime.admin.admin_world import AGENT, SESSION, TENANT, World

pytestmark = pytest.mark.anyio

BUDGET: dict[str, Any] = {
    "id": "daily",
    "tenant": TENANT,
    "scope": "agent",
    "subject": AGENT,
    "limits": {"tool_calls": 100, "cost_microusd": 5_000_000},
    "window": {"every_s": 86_400},
}
TERMS: dict[str, Any] = {
    "kind": "allowance",
    "burst": None,
    "match": {"tool": "*", "upstream": "*", "tier": "*"},
    "mode": "enforce",
    "overdraft": "deny",
    "warn_at_permille": [],
}
SHOWN = BUDGET | TERMS


async def test_a_budget_is_made_read_and_listed(world: World) -> None:
    made = await world.post("/budgets", BUDGET)

    read = await world.get("/budgets/daily")
    listed = await world.get("/budgets")
    assert made.status_code == 201
    assert made.headers["Location"] == "/admin/v1/budgets/daily"
    assert made.headers["ETag"] == read.headers["ETag"] == '"1"'
    assert made.json() == read.json() == {**SHOWN, "version": 1}
    assert listed.json() == {"items": [read.json()], "next": None}


async def test_a_budget_without_an_id_is_given_one(world: World) -> None:
    template = {key: BUDGET[key] for key in ("tenant", "scope", "limits")}

    made = (await world.post("/budgets", template)).json()

    assert made["id"].startswith("bud_")
    assert (made["subject"], made["window"]) == (None, "lifetime")
    assert (await world.get(f"/budgets/{made['id']}")).status_code == 200


async def test_a_budget_governs_the_very_next_call(world: World) -> None:
    await world.post("/budgets", BUDGET | {"limits": {"tool_calls": 1}})

    decisions = [await world.admit("call-1"), await world.admit("call-2")]

    assert [type(decision) for decision in decisions] == [Reserved, Denied]


async def test_lowering_a_budget_below_its_use_is_accepted_and_denies(world: World) -> None:
    await world.post("/budgets", BUDGET)
    await world.run_call("call-1")
    await world.admit("call-2")

    lowered = await world.put("/budgets/daily", {"limits": {"tool_calls": 1}})

    (balance,) = (await world.get("/balances")).json()["items"]
    assert lowered.status_code == 200
    assert (balance["used"], balance["reserved"], balance["remaining"]) == (1, 1, -1)
    assert isinstance(await world.admit("call-3"), Denied)


async def test_raising_a_budget_lets_the_next_call_through(world: World) -> None:
    await world.post("/budgets", BUDGET | {"limits": {"tool_calls": 0}})
    before = await world.admit("call-1")

    await world.put("/budgets/daily", {"limits": {"tool_calls": 1}})

    assert isinstance(before, Denied)
    assert isinstance(await world.admit("call-2"), Reserved)


async def test_what_a_change_leaves_out_stays_and_null_is_a_subject(world: World) -> None:
    await world.post("/budgets", BUDGET)

    kept = (await world.put("/budgets/daily", {"window": "lifetime"})).json()
    widened = (await world.put("/budgets/daily", {"subject": None})).json()

    assert kept == {**SHOWN, "window": "lifetime", "version": 2}
    assert widened == {**SHOWN, "window": "lifetime", "subject": None, "version": 3}


async def test_a_budget_can_be_put_back_as_it_was_read(world: World) -> None:
    read = (await world.post("/budgets", BUDGET)).json()

    changed = await world.put("/budgets/daily", read)

    assert (changed.status_code, changed.json()) == (200, read)


@pytest.mark.parametrize("member", ["id", "tenant"])
async def test_what_a_budget_is_filed_under_stays(world: World, member: str) -> None:
    await world.post("/budgets", BUDGET)

    changed = await world.put("/budgets/daily", {member: "other"})

    assert changed.status_code == 422
    assert changed.json()["errors"] == [
        {"field": member, "detail": f"This is {BUDGET[member]} and stays so"}
    ]


async def test_if_match_is_honoured_by_put_and_delete(world: World) -> None:
    await world.post("/budgets", BUDGET)
    stale = {"If-Match": '"9"'}

    put = await world.put("/budgets/daily", {"limits": {"tool_calls": 1}}, headers=stale)
    delete = await world.delete("/budgets/daily", headers=stale)

    assert (put.status_code, delete.status_code) == (412, 412)
    assert (await world.get("/budgets/daily")).json() == {**SHOWN, "version": 1}
    fresh = await world.delete("/budgets/daily", headers={"If-Match": '"1"'})
    assert fresh.status_code == 204


async def test_a_retired_budget_governs_no_call_and_its_id_is_not_used_again(
    world: World,
) -> None:
    await world.post("/budgets", BUDGET | {"limits": {"tool_calls": 0}})

    retired = await world.delete("/budgets/daily")

    assert (retired.status_code, retired.content) == (204, b"")
    assert isinstance(await world.admit("call-1"), Reserved)
    assert (await world.get("/budgets/daily")).status_code == 404
    assert (await world.delete("/budgets/daily")).status_code == 404
    assert (await world.post("/budgets", BUDGET)).status_code == 409


@pytest.mark.parametrize("verb", ["post", "put"])
async def test_a_budget_above_the_quota_is_409_and_says_what_is_above_what(
    world: World, verb: str
) -> None:
    await world.put(f"/tenants/{TENANT}/quota", {"limits": {"tool_calls": 10}})
    below = BUDGET | {"limits": {"tool_calls": 10}}
    if verb == "put":
        await world.post("/budgets", below)

    above = await world.ask(
        verb.upper(),
        "/budgets" if verb == "post" else "/budgets/daily",
        BUDGET | {"limits": {"tool_calls": 11}},
    )

    problem = above.json()
    assert above.status_code == 409
    assert problem["type"] == "urn:flyball:problem:above-quota"
    assert problem["budget_id"] == "daily"
    assert (problem["unit"], problem["limit"], problem["quota"]) == ("tool_calls", 11, 10)
    assert problem["errors"] == [{"field": "limits.tool_calls", "detail": "11 is above 10"}]
    assert "budget daily" in problem["detail"]


async def test_a_quota_is_not_among_the_budgets(world: World) -> None:
    await world.put(f"/tenants/{TENANT}/quota", {"limits": {"tool_calls": 10}})
    quota = f"/budgets/quota:{TENANT}"

    assert (await world.get("/budgets")).json()["items"] == []
    assert (await world.get(quota)).status_code == 404
    assert (await world.put(quota, {"limits": {"tool_calls": 11}})).status_code == 404
    assert (await world.delete(quota)).status_code == 404


async def test_budgets_are_filtered_by_tenant_and_scope(world: World) -> None:
    await world.post("/tenants", {"id": "globex"})
    for number, (tenant, scope) in enumerate(
        [(TENANT, "tenant"), (TENANT, "agent"), ("globex", "agent"), (TENANT, "session")]
    ):
        body = {"id": f"b{number}", "tenant": tenant, "scope": scope, "limits": {"turns": 1}}
        assert (await world.post("/budgets", body)).status_code == 201

    async def found(**filters: str) -> list[str]:
        return [i["id"] for i in (await world.get("/budgets", params=filters)).json()["items"]]

    assert await found(tenant=TENANT) == ["b0", "b1", "b3"]
    assert await found(scope="agent") == ["b1", "b2"]
    assert await found(tenant=TENANT, scope="agent") == ["b1"]
    assert await found(tenant="nobody") == []


async def test_a_filtered_listing_is_whole_however_it_is_cut_into_pages(world: World) -> None:
    await world.put(f"/tenants/{TENANT}/quota", {"limits": {"tool_calls": 10}})
    for number in range(30):
        scope = "agent" if number % 7 == 0 else "session"
        body = {"id": f"b{number:02}", "tenant": TENANT, "scope": scope, "limits": {"turns": 1}}
        await world.post("/budgets", body)

    for limit in (1, 2, 3, 200):
        found, cursor = [], None
        while True:
            params = {"scope": "agent", "limit": limit} | ({"cursor": cursor} if cursor else {})
            page = (await world.get("/budgets", params=params)).json()
            assert len(page["items"]) <= limit
            found += [item["id"] for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break

        assert found == ["b00", "b07", "b14", "b21", "b28"]


async def test_balances_are_shown_for_whom_they_are_asked(world: World) -> None:
    await world.post("/budgets", BUDGET | {"limits": {"tool_calls": 5}})
    each = {"id": "each", "tenant": TENANT, "scope": "session", "limits": {"tool_calls": 3}}
    await world.post("/budgets", each)
    await world.run_call("call-1")

    async def found(**filters: str) -> list[tuple[str, str, int]]:
        answer = await world.get("/balances", params=filters)
        return [(i["budget_id"], i["subject"], i["used"]) for i in answer.json()["items"]]

    everything = [("daily", AGENT, 1), ("each", SESSION, 1)]
    assert await found() == await found(tenant=TENANT) == everything
    assert await found(agent=AGENT) == await found(session=SESSION) == everything
    assert await found(session=f"{AGENT}/run-1") == everything
    await world.post("/tenants", {"id": "globex"})
    assert await found(tenant="globex") == []
    assert await found(tenant="globex", session=SESSION) == []
    assert (await world.get("/balances", params={"agent": "nobody"})).status_code == 404


async def test_a_balance_carries_every_figure(world: World) -> None:
    await world.post("/budgets", BUDGET | {"limits": {"tool_calls": 5}})

    (balance,) = (await world.get("/balances")).json()["items"]

    day_ms = 86_400_000
    assert balance == {
        "budget_id": "daily",
        "tenant": TENANT,
        "scope": "agent",
        "subject": AGENT,
        "session_name": None,
        "unit": "tool_calls",
        "limit": 5,
        "used": 0,
        "reserved": 0,
        "overrun": 0,
        "remaining": 5,
        "every_ms": None,
        "burst": None,
        "window": {"every_s": 86_400},
        "resets_at_ms": (world.clock.now_ms() // day_ms + 1) * day_ms,
        "is_quota": False,
        "kind": "allowance",
        "mode": "enforce",
    }


async def test_a_sessions_balance_says_what_its_agent_calls_it(world: World) -> None:
    limits = {"tool_calls": 5}
    await world.post("/budgets", BUDGET | {"scope": "session", "subject": None, "limits": limits})
    await world.run_call("call-1")

    (balance,) = (await world.get("/balances")).json()["items"]

    assert (balance["subject"], balance["session_name"]) == (SESSION, f"{AGENT}/run-1")


@pytest.mark.parametrize(
    ("scope", "subject", "says"),
    [
        ("agent", "nobody", "GET /principals"),
        ("agent", "stranger", "no principal of this tenant"),
        ("agent", SESSION, "GET /principals"),
        ("session", "run-1", "GET /sessions"),
        ("session", "ses_unknown", "leave subject out"),
        ("session", AGENT, "ses_…"),
    ],
)
@pytest.mark.parametrize("verb", ["post", "put"])
async def test_a_subject_that_does_not_exist_is_refused_and_told_what_it_must_be(
    world: World, verb: str, scope: str, subject: str, says: str
) -> None:
    await world.post("/tenants", {"id": "globex"})
    await world.post("/principals", {"id": "stranger", "tenant": "globex", "role": "agent"})
    await world.run_call("call-1")
    wrong = {"scope": scope, "subject": subject}
    if verb == "put":
        await world.post("/budgets", BUDGET)

    refused = await world.ask(
        verb.upper(),
        "/budgets" if verb == "post" else "/budgets/daily",
        BUDGET | wrong if verb == "post" else wrong,
    )

    (fault,) = refused.json()["errors"]
    assert refused.status_code == 422
    assert fault["field"] == "subject"
    assert says in fault["detail"]


async def test_a_session_that_exists_can_have_a_budget_of_its_own(world: World) -> None:
    await world.run_call("call-1")
    own = BUDGET | {"scope": "session", "subject": SESSION, "limits": {"tool_calls": 0}}

    made = await world.post("/budgets", own)

    assert made.status_code == 201
    assert isinstance(await world.admit("call-2"), Denied)


async def test_a_budget_of_an_unknown_tenant_is_404_whoever_it_is_for(world: World) -> None:
    for body in (BUDGET, BUDGET | {"subject": None}):
        assert (await world.post("/budgets", body | {"tenant": "nobody"})).status_code == 404


async def test_a_budget_whose_subject_was_never_seen_can_still_be_changed(world: World) -> None:
    unseen = Budget(
        budget_id=BudgetId("early"),
        tenant=TENANT,
        scope=ScopeKind.AGENT,
        subject="not-yet",
        limits=Amounts({Unit.TURNS: 1}),
        window=Lifetime(),
    )
    await world.parts.store.budgets.create(unseen, by=Actor(name="config"), now_ms=1)

    changed = await world.put("/budgets/early", {"limits": {"turns": 2}})

    assert changed.status_code == 200


RATE: dict[str, Any] = {
    "id": "per-minute",
    "tenant": TENANT,
    "scope": "tenant",
    "limits": {"tool_calls": 6},
    "window": {"every_s": 60},
    "kind": "rate",
    "burst": 2,
    "match": {"upstream": "files"},
}


async def test_a_rate_is_made_with_its_burst_and_refills(world: World) -> None:
    made = await world.post("/budgets", RATE)

    decisions = [type(await world.admit(f"call-{n}")) for n in range(3)]
    world.clock.at_ms += 10_000
    assert (made.status_code, made.json()["burst"]) == (201, 2)
    assert decisions == [Reserved, Reserved, Denied]
    assert isinstance(await world.admit("call-later"), Reserved)


async def test_a_concurrency_counts_what_runs(world: World) -> None:
    terms = {"kind": "concurrency", "limits": {"tool_calls": 1}, "window": "lifetime"}
    await world.post("/budgets", BUDGET | terms)

    await world.run_call("call-1")
    await world.admit("call-2")

    denied = await world.admit("call-3")
    assert isinstance(denied, Denied)
    assert denied.reason == "concurrency_exhausted"


@pytest.mark.parametrize(
    "window",
    [{"last_s": 60, "buckets": 6}, {"calendar": "month", "time_zone": "Europe/Berlin"}],
)
async def test_windows_that_slide_or_follow_the_calendar_are_kept(
    world: World, window: dict[str, object]
) -> None:
    made = await world.post("/budgets", BUDGET | {"window": window})

    assert (made.status_code, made.json()["window"]) == (201, window)


async def test_a_change_keeps_the_terms_that_it_leaves_out(world: World) -> None:
    terms = {"mode": "observe", "warn_at_permille": [500, 800], "overdraft": "allow_and_debt"}
    await world.post("/budgets", BUDGET | terms | {"match": {"tool": "files__*"}})

    changed = (await world.put("/budgets/daily", {"limits": {"tool_calls": 1}})).json()

    assert {name: changed[name] for name in terms} == terms
    assert changed["match"] == {"tool": "files__*", "upstream": "*", "tier": "*"}
    cleared = (await world.put("/budgets/daily", {"warn_at_permille": []})).json()
    assert cleared["warn_at_permille"] == []


async def test_a_kind_cannot_be_changed_because_its_account_means_something_else(
    world: World,
) -> None:
    await world.post("/budgets", BUDGET)

    changed = await world.put("/budgets/daily", {"kind": "rate"})

    assert (changed.status_code, changed.json()["errors"][0]["field"]) == (422, "kind")


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"kind": "rate", "window": "lifetime"}, "window"),
        ({"burst": 2}, "burst"),
        ({"kind": "rate", "burst": 0}, "burst"),
        ({"window": {"last_s": 7, "buckets": 2000}}, "window.buckets"),
        ({"window": {"last_s": 0}}, "window.last_s"),
        ({"window": {"calendar": "day", "time_zone": "Mars/Base"}}, "window.time_zone"),
        ({"window": {"calendar": "year"}}, "window.calendar"),
        ({"warn_at_permille": [0]}, "warn_at_permille.0"),
        ({"warn_at_permille": [800, 500]}, "warn_at_permille"),
        ({"mode": "watch"}, "mode"),
        ({"overdraft": "always"}, "overdraft"),
        ({"kind": "bucket"}, "kind"),
        ({"match": {"tols": "*"}}, "match.tols"),
    ],
)
async def test_terms_that_make_no_sense_are_refused_by_name(
    world: World, terms: dict[str, object], field: str
) -> None:
    refused = await world.post("/budgets", BUDGET | terms)

    assert refused.status_code == 422
    assert [fault["field"] for fault in refused.json()["errors"]] == [field]


@pytest.mark.requirement("input.budget-matches-nothing")
@pytest.mark.parametrize("part", ["tool", "upstream", "tier"])
async def test_a_budget_for_what_is_not_configured_is_refused_unless_it_will_be(
    world: World, part: str
) -> None:
    strange = BUDGET | {"match": {part: "nosuch"}}

    refused = await world.post("/budgets", strange)
    accepted = await world.post("/budgets", strange | {"allow_unknown": True})

    assert refused.status_code == 422
    assert [fault["field"] for fault in refused.json()["errors"]] == [f"match.{part}"]
    assert accepted.status_code == 201

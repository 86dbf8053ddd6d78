import pytest

from governor.ids import TaskClass
from governor.scope import ScopeChain
from governor.turn_policy import TurnMode
from memory_store.productivity import Figures
from runtime.admin.shapes.productivity import figures_out
from tests.runtime.admin.admin_world import AGENT, SESSION, TENANT, World

pytestmark = pytest.mark.anyio

METRICS = "/metrics/productivity"


async def begin(world: World) -> None:
    await world.parts.store.turns.begin(
        ScopeChain(tenant=TENANT, agent=AGENT, session=SESSION),
        task_class=TaskClass("bug"),
        mode=TurnMode.FIXED,
        base_turns=3,
        now_ms=world.clock.now_ms(),
    )


async def test_a_session_shows_its_turns_and_takes_extensions_and_an_outcome(world: World) -> None:
    await begin(world)
    await world.run_call("call-1")

    given = await world.post(f"/sessions/{SESSION}/extensions", {"turns": 4, "reason": "go on"})
    reported = await world.post(f"/sessions/{SESSION}/outcome", {"success": True})
    shown = (await world.get(f"/sessions/{SESSION}")).json()

    assert (given.status_code, reported.status_code) == (201, 200)
    assert shown["turns"] == {
        "mode": "fixed",
        "task_class": "bug",
        "limit": 7,
        "used": 0,
        "remaining": 7,
        "was_cut": False,
        "extensions": [
            {
                "number": 1,
                "turns": 4,
                "reason": "go on",
                "granted_by": "root",
                "granted_at_ms": world.clock.now_ms(),
            }
        ],
        "outcome": {
            "success": True,
            "reported_at_ms": world.clock.now_ms(),
            "reported_by": "root",
        },
    }
    assert shown["productivity"]["cost_of_pass_microusd"] == 40


@pytest.mark.requirement("metrics.productivity")
async def test_productivity_is_paged_and_says_what_it_is_made_of(world: World) -> None:
    await begin(world)
    await world.run_call("call-1")
    await world.run_call("call-2")
    await world.post(f"/sessions/{SESSION}/outcome", {"success": False})

    for by in ("session", "agent", "tool", "task_class"):
        page = (await world.get(METRICS, params={"by": by, "limit": 1})).json()
        (line,) = page["items"]
        assert page["next"] is None
        assert (line["tool_calls"], line["cost_microusd"]) == (2, 80)
        assert (line["attempts"], line["solved"], line["success_rate"]) == (1, 0, 0.0)
        assert line["cost_of_pass_microusd"] is None
        assert line["redundant_share"] is None
        assert line["energy"] == {"mj": 0, "mj_per_session": 0.0, "source": "cpu_estimate"}
    (line,) = (await world.get(METRICS, params={"by": "session"})).json()["items"]
    assert (line["session"]["task_class"], line["session"]["turns_limit"]) == ("bug", 3)


@pytest.mark.requirement("energy.is-an-estimate")
@pytest.mark.parametrize(
    ("charged_mj", "milliwatts", "shown"),
    [
        (0, None, (1_030, "cpu_estimate")),
        (0, 7_031, (725, "cpu_estimate")),  # rounded up
        (700, 7_031, (700, "charged_estimate")),
    ],
)
def test_energy_is_what_was_charged_else_cpu_time_at_the_draw_of_a_core(
    charged_mj: int, milliwatts: int | None, shown: tuple[int, str]
) -> None:
    figures = Figures(sessions=2, cpu_ms=103, energy_mj=charged_mj)

    energy = figures_out(figures, milliwatts_per_core=milliwatts).energy

    assert (energy.mj, energy.source) == shown
    assert energy.mj_per_session == energy.mj / 2


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("extensions", {"turns": 0}, "turns"),
        ("extensions", {"turns": "3"}, "turns"),
        ("extensions", {"turns": 1, "reason": ""}, "reason"),
        ("extensions", {}, "turns"),
        ("outcome", {"success": 1}, "success"),
        ("outcome", {"success": True, "why": "x"}, "why"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_changed(
    world: World, path: str, body: dict[str, object], field: str
) -> None:
    await world.run_call("call-1")

    answer = await world.post(f"/sessions/{SESSION}/{path}", body)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    turns = (await world.get(f"/sessions/{SESSION}")).json()["turns"]
    assert (turns["extensions"], turns["outcome"]) == ([], None)


async def test_an_unknown_session_a_grouping_and_a_cursor_are_refused(world: World) -> None:
    extended = await world.post("/sessions/ses_nobody/extensions", {"turns": 1})
    outcome = await world.post("/sessions/ses_nobody/outcome", {"success": True})
    grouping = await world.get(METRICS, params={"by": "colour"})
    missing = await world.get(METRICS)
    cursor = await world.get(METRICS, params={"by": "agent", "cursor": "x"})
    agent = await world.get(METRICS, params={"by": "agent"}, token=world.agent_secret)

    assert (extended.status_code, outcome.status_code) == (404, 404)
    assert (grouping.status_code, missing.status_code, cursor.status_code) == (422, 422, 422)
    assert agent.status_code == 403

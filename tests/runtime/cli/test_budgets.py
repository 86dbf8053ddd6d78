"""`flyball budgets` against a real sidecar."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from governor.amounts import Unit
from governor.scope import ScopeKind
from runtime.cli.budgets import table
from runtime.configuration.listen import Listen
from runtime.configuration.model import BudgetTable, Config
from runtime.serving import serving
from tests.runtime.cli.conftest import Ended, Flyball

pytestmark = pytest.mark.anyio

STATE = "state"


@pytest.fixture
async def sidecar(folder: Path) -> AsyncIterator[None]:
    """A sidecar with one budget; the configuration beside it names the port that it got."""
    config = Config(
        listen=Listen(agents="127.0.0.1:0", admin="127.0.0.1:0"),
        budget=(
            BudgetTable(
                id="all", scope=ScopeKind.TENANT, limits={Unit.TOOL_CALLS: 7}, mode="observe"
            ),
            BudgetTable(
                id="pace",
                scope=ScopeKind.TENANT,
                limits={Unit.TOOL_CALLS: 3},
                kind="rate",
                window={"every_s": 10},
                burst=1,
            ),
            BudgetTable(
                id="daily",
                scope=ScopeKind.AGENT,
                limits={Unit.TOOL_CALLS: 5, Unit.COST_MICROUSD: 900},
                window={"every_s": 86_400},
            ),
        ),
    )
    async with serving(config, state_dir=folder / STATE) as (_, listeners):
        admin = listeners.admin_url.removeprefix("http://")
        (folder / "flyball.toml").write_text(f'[listen]\nadmin = "{admin}"\n', encoding="utf-8")
        yield


async def run(flyball: Flyball, *words: str) -> Ended:
    with anyio.fail_after(60):
        return await to_thread.run_sync(lambda: flyball("budgets", *words, "--state", STATE))


@pytest.mark.usefixtures("sidecar")
async def test_budgets_are_listed_with_what_is_used_held_and_left(flyball: Flyball) -> None:
    listed = await run(flyball)

    head, line, rate, *unused = (row.split() for row in listed.out.splitlines())
    assert head[:4] == ["budget", "scope", "whom", "unit"]
    assert line == [*("all", "(observe)", "tenant", "default", "tool_calls"), *"7007", "-"]
    assert rate[:2] == ["pace", "(rate)"]
    assert " ".join(rate[-11:]) == "3 in 10 s, 1 at once 0 0 1 -"
    # It denies from the first call on, although it is nobody's balance before that.
    told = " ".join(unused[-1])
    assert unused[1] == ["Nothing", "used", "yet"]
    assert told.startswith("daily agent each agent of default ")
    assert {"5 tool_calls", "900 cost_microusd"} <= set(re.findall(r"\d+ [a-z]+_[a-z]+", told))
    assert told.endswith("every 24 h")


@pytest.mark.usefixtures("sidecar")
async def test_programs_get_the_answer_of_the_admin_api(flyball: Flyball) -> None:
    listed = json.loads((await run(flyball, "--tenant", "default", "--json")).out)

    item, rate = listed["items"]
    assert [budget["id"] for budget in listed["budgets"]] == ["all", "daily", "pace"]
    assert (item["budget_id"], item["limit"], item["remaining"]) == ("all", 7, 7)
    assert (rate["limit"], rate["every_ms"], rate["burst"], rate["remaining"]) == (3, 10_000, 1, 1)


@pytest.mark.usefixtures("sidecar")
async def test_a_budget_that_nobody_used_is_shown_and_one_that_is_not_there_is_an_error(
    flyball: Flyball,
) -> None:
    unused = await run(flyball, "--budget", "daily")
    elsewhere = await run(flyball, "--budget", "daily", "--scope", "tenant")
    unknown = await run(flyball, "--budget", "nosuch")
    previewed = await run(flyball, "--preview", "nosuch")

    assert (unused.status, unused.out.splitlines()[0]) == (0, "Nothing used yet")
    assert unused.out.splitlines()[2].startswith("daily ")
    assert (elsewhere.status, elsewhere.out) == (0, "No budget stands here yet.\n")
    assert (unknown.status, unknown.out) == (previewed.status, "") == (2, "")
    assert "no budget nosuch" in unknown.err


@pytest.mark.usefixtures("sidecar")
async def test_an_unknown_session_is_told_in_a_sentence(flyball: Flyball) -> None:
    listed = await run(flyball, "--session", "ses_nosuch")

    assert listed.status == 2
    assert "ses_nosuch" in listed.err


def balance(scope: str, subject: str) -> dict[str, object]:
    return {
        "budget_id": f"of-{scope}",
        "scope": scope,
        "subject": subject,
        "session_name": None,
        "unit": "tool_calls",
        "limit": 9,
        "used": 1,
        "reserved": 0,
        "remaining": 8,
        "burst": None,
        "resets_at_ms": None,
        "is_quota": False,
        "kind": "allowance",
        "mode": "enforce",
    }


def test_of_very_many_sessions_only_some_are_shown_and_the_rest_are_counted() -> None:
    items = [balance("tenant", "default"), balance("agent", "coder")]
    items += [balance("session", f"ses_{number:03}") for number in range(500)]

    lines = table({"items": items, "next": None}, sessions_max=40).splitlines()

    assert [line.split()[1] for line in lines[1:4]] == ["tenant", "agent", "session"]
    assert len(lines) == 1 + 2 + 40 + 1
    assert lines[-1].startswith("460 more sessions have balances of their own")

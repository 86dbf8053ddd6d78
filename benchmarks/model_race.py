"""What parallel calls of one session spend of its budget: Flyball, and LiteLLM's own limiter.

Each call costs $0.50, the session has $1.00, and all calls are on their way at once. Flyball is
called over HTTP; LiteLLM's shipped limiter is called as its proxy calls it, because a real key
would need its PostgreSQL.
"""

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from model_parties import Party, flyball, flyball_headers
from model_running import Running, load, started

AT_ONCE = (1, 4, 16, 64)
BUDGET_MICROUSD = 1_000_000
CALL_MICROUSD = 500_000
_TOKENS = 20
_OUTPUT_USD = CALL_MICROUSD // _TOKENS
# Long enough that every call is admitted, or not, before the first one ends.
_ANSWER_MS = 300
_LITELLM = """
import asyncio, json, sys
from unittest.mock import patch
from litellm import DualCache
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.hooks.max_budget_per_session_limiter import (
    _PROXY_MaxBudgetPerSessionHandler as Limiter,
)
from litellm.proxy.utils import InternalUsageCache
BUDGET_USD, COST_USD = 1.00, 0.50
SESSION = {"session_id": "race"}
async def call(limiter):
    asked = {"model": "m", "metadata": dict(SESSION)}
    try:
        key = UserAPIKeyAuth(api_key="k")
        await limiter.async_pre_call_hook(key, DualCache(), asked, "completion")
    except Exception:
        return 0
    await asyncio.sleep(0.3)
    params = {"metadata": {**SESSION, "user_api_key_auth": None}}
    done = {"litellm_params": params, "response_cost": COST_USD, "standard_logging_object": {}}
    await limiter.async_log_success_event(done, None, None, None)
    return 1
async def race(count):
    limiter = Limiter(InternalUsageCache(DualCache()))
    with patch.object(Limiter, "_get_max_budget_per_session", lambda *_: BUDGET_USD):
        return sum(await asyncio.gather(*(call(limiter) for _ in range(count))))
async def main():
    print(json.dumps([await race(count) for count in json.loads(sys.argv[1])]))
asyncio.run(main())
"""


def main(peers: Path, upstream: str) -> None:
    """Print what was spent of the same budget by so many calls at once."""
    columns = {"Flyball": _flyball(peers, upstream)}
    python = peers / "litellm/bin/python"
    if python.exists():
        columns["LiteLLM's session limiter"] = _litellm(python)
    names = list(columns)
    print("\nspent of a session budget of $1.00 by calls of $0.50, all at once\n")
    print(f"| calls at once | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for at, count in enumerate(AT_ONCE):
        shown = [f"${columns[name][at] / 1_000_000:.2f}" for name in names]
        print(f"| {count} | {' | '.join(shown)} |")


def _flyball(peers: Path, upstream: str) -> list[int]:
    more = (
        '[[budget]]\nid = "race"\nscope = "session"\n'
        f"limits = {{ cost_microusd = {BUDGET_MICROUSD} }}"
    )
    racer = Party(
        name="Flyball",
        command=lambda _, place: flyball(place, input_usd=0, output_usd=_OUTPUT_USD, more=more),
        headers=lambda place: (*flyball_headers(place), "flyball-session: warm"),
        is_ours=True,
    )
    with started(racer, peers, upstream, tokens_max=_TOKENS) as one:
        return [_spent(one, count) for count in AT_ONCE]


def _spent(one: Running, count: int) -> int:
    """Return what the session's budget was charged, having checked it against the answers."""
    one.headers = (*one.headers[:-1], f"flyball-session: race{count}")
    before = _settled(one)
    how = ("--cold", "--callers", str(count), "--times", "1", "--pace", str(_ANSWER_MS))
    found = load(one, *how)
    answered = len(found["samples_ms"])
    assert answered + found["errors"] == count, found
    assert not found["errors"] or "HTTP/1.1 429" in found["error"], found["error"]
    spent = _settled(one) - before
    assert spent == answered * CALL_MICROUSD <= BUDGET_MICROUSD, (spent, answered)
    return spent


def _settled(one: Running) -> int:
    """Return what all sessions were charged so far; nothing may be held any more."""
    [path] = (one.folder / "state").glob("*.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        [(settled, reserved)] = database.execute(
            "SELECT sum(settled), sum(reserved) FROM balances WHERE budget_id = 'race'"
        )
    assert reserved == 0, f"{reserved} is still held"
    return int(settled)


def _litellm(python: Path) -> list[int]:
    done = subprocess.run(
        [str(python), "-c", _LITELLM, json.dumps(AT_ONCE)],
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "CRITICAL"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return [answered * CALL_MICROUSD for answered in json.loads(done.stdout.splitlines()[-1])]

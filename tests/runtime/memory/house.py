"""A sidecar in this process whose agents reach their memory over HTTP."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from governor.amounts import Unit
from governor.ids import PrincipalId, TenantId
from memory_store.audit import Actor
from memory_store.identities import Role
from runtime.configuration.load import parse_config
from runtime.token_files import TENANT
from runtime.wiring import Sidecar, open_sidecar

BY = Actor(name="root")
RIVAL = TenantId("rival")
# A micro-dollar for each byte that is written and for each thousandth of a token.
CONFIG = """
[memory]
item_bytes_max = 65536
read_microusd_per_ktoken = 1000000
write_microusd_per_mib = 1048576
[[memory.namespace]]
name = "team/red"
readers = ["bob-team"]
writers = ["ada-team"]
[[memory.namespace]]
name = "team/green"
readers = ["*"]
writers = ["*"]
admission = "learned"
[[budget]]
id = "session"
scope = "session"
limits = { memory_writes = 40, memory_bytes = 100000, memory_read_tokens = 20000 }
"""


@dataclass
class House:
    """A sidecar, and the agents of one test: ada and bob of one tenant, eve of another."""

    sidecar: Sidecar
    suffix: str
    tokens: dict[str, str]

    @property
    def state(self) -> Path:
        return self.sidecar.tokens.admin.parent

    def client(self, agent: str = "ada", session: str = "s1") -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self.sidecar.agents),
            base_url="http://localhost",
            headers={
                "Authorization": f"Bearer {self.tokens[agent]}",
                "Flyball-Session": session,
            },
        )

    async def post(
        self, path: str, body: Mapping[str, Any], *, agent: str = "ada", **headers: str
    ) -> httpx.Response:
        async with self.client(agent) as client:
            return await client.post(f"/memory/v1/{path}", json=body, headers=headers)

    async def get(self, path: str, *, agent: str = "ada", **params: Any) -> httpx.Response:
        async with self.client(agent) as client:
            return await client.get(f"/memory/v1/{path}", params=params)

    async def delete(self, index: str, *, agent: str = "ada") -> httpx.Response:
        async with self.client(agent) as client:
            return await client.delete(f"/memory/v1/experiences/{index}")

    async def kept(self, content: str, *, agent: str = "ada", **more: Any) -> dict[str, Any]:
        """Return what the house says of a write that went well."""
        answer = await self.post("experiences", {"content": content, **more}, agent=agent)
        assert answer.status_code == 201, answer.text
        shape: dict[str, Any] = answer.json()
        return shape

    async def found(self, query: str, *, agent: str = "ada", **more: Any) -> dict[str, Any]:
        """Return what a search answers that went well."""
        answer = await self.post("search", {"query": query, **more}, agent=agent)
        assert answer.status_code == 200, answer.text
        shape: dict[str, Any] = answer.json()
        return shape

    async def used(self, unit: Unit, *, agent: str = "ada") -> int:
        """Return what the session's budget says is used of a unit, as a write is told."""
        shape = await self.kept("what is used", agent=agent)
        found: list[dict[str, Any]] = shape["flyball"]["budget"]
        return next(int(one["used"]) for one in found if one["unit"] == unit.value)

    async def kept_anywhere(self, word: str) -> list[str]:
        """Return the rows and the files of the state directory that hold a word."""
        found = [
            str(path.relative_to(self.state))
            for path in self.state.rglob("*")
            if not path.name.startswith("flyball.db") and path.is_file()
            if word.encode() in path.read_bytes()
        ]
        with closing(sqlite3.connect(self.state / "flyball.db")) as database:
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
            )
            for (table,) in tables.fetchall():
                rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
                found += [f"{table}: {row}" for row in rows if word in repr(row)]
        return found


@asynccontextmanager
async def a_sidecar(
    folder: Path, config: str = CONFIG, *, reread: Callable[[], str] | None = None
) -> AsyncIterator[Sidecar]:
    """Yield a sidecar with a tenant beside the usual one; `reread` is what its file says later."""
    parsed = parse_config(config, source="the test")
    again = None if reread is None else lambda: parse_config(reread(), source="the test")
    async with open_sidecar(parsed, state_dir=folder / "state", reread=again) as sidecar:
        await sidecar.store.tenants.create(RIVAL, name="rival", by=BY, now_ms=1)
        yield sidecar


async def settled_in(sidecar: Sidecar, suffix: str) -> House:
    """Return a house whose agents nobody has met before."""
    tokens = {}
    for name, tenant in (("ada", TENANT), ("bob", TENANT), ("eve", RIVAL)):
        agent = PrincipalId(f"{name}-{suffix}")
        await sidecar.store.principals.create(
            agent, tenant=tenant, name=agent, role=Role.AGENT, by=BY, now_ms=1
        )
        issued = await sidecar.store.principals.issue_token(
            agent, expires_at_ms=None, by=BY, now_ms=1
        )
        tokens[name] = issued.secret
    return House(sidecar=sidecar, suffix=suffix, tokens=tokens)

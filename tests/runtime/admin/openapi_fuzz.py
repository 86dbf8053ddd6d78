"""Every route of the description is asked with what it allows and with what it does not.

What schemathesis draws from the description is sent to a real administration over a real store;
each answer must be one that the description knows, of its media type and its shape, and none may
be an error that nobody foresaw. Ids in paths are often such as exist, or nothing would be found.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import anyio.from_thread
import anyio.to_thread
import httpx
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    AcceptedNegativeData,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.runtime.admin.admin_world import AGENT, FILES, SESSION, TENANT, World

DEFAULT = "default"

# Sends one request to the administration, and waits for its answer.
Send = Callable[[httpx.Request], httpx.Response]

# What is too large, or made for another version, is refused before it is looked at.
REFUSED = (412, 413)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@dataclass(kw_only=True)
class Fuzz:
    """One campaign: how many requests each route got, and what was found."""

    send: Send
    known: Mapping[str, Sequence[str]]
    """Ids that exist, by the name of the parameter of a path."""
    headers: Mapping[str, str]
    asked: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    found: dict[str, str] = field(default_factory=dict)
    """What is wrong, each kind of fault of each route once, with the request that shows it."""

    def run(self, document: dict[str, Any], *, examples: int, seed: int, share: int = 1) -> None:
        """Ask each route so often with what is allowed, and as often with what is not.

        Of the routes one in `share` is asked, which ones is the seed's to say.
        """
        # Whether a token is needed has tests of its own; here every request has one.
        for path in document["paths"].values():
            for operation in path.values():
                operation.pop("security", None)
        schema = schemathesis.openapi.from_dict(document)
        for number, one in enumerate(schema.get_all_operations()):
            if number % share != seed % share:
                continue
            operation = one.ok()
            for mode in GenerationMode:
                cases = operation.as_strategy(generation_mode=mode)
                # Nothing that some routes take could be wrong.
                with suppress(Unsatisfiable):
                    self._ask_often(cases, examples=examples, seed=seed)

    def _ask_often(self, cases: st.SearchStrategy[Case], *, examples: int, seed: int) -> None:
        @seeded(seed)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, number=st.integers(0, 63))
        def ask(case: Case, number: int) -> None:
            self._ask(case, number)

        ask()

    def _ask(self, case: Case, number: int) -> None:
        """Send one request, and keep what is wrong with its answer."""
        for name, ids in self.known.items():
            # Half of the ids are such as exist.
            if name in case.path_parameters and number % 2:
                case.path_parameters[name] = ids[number // 2 % len(ids)]
        response = self.send(self._request(case))
        self.asked[case.operation.label] += 1
        self.statuses[response.status_code] += 1
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as group:
            for failure in group.exceptions:
                assert isinstance(failure, Failure)
                if isinstance(failure, AcceptedNegativeData) and response.status_code in REFUSED:
                    continue
                said = f"{failure.title}: {failure.message}"
                shown = f"{said[:1_500]}\n    {case.as_curl_command()[:1_000]}"
                key = f"{case.operation.label}: {failure.title} ({response.status_code})"
                self.found.setdefault(key, f"{shown}\n    {response.text[:500]}")

    def _request(self, case: Case) -> httpx.Request:
        kwargs = case.as_transport_kwargs(base_url="http://admin")
        kwargs["headers"] = {**kwargs["headers"], **self.headers}
        prepared = requests.Request(**kwargs).prepare()
        assert prepared.url is not None
        assert prepared.method is not None
        body = prepared.body
        content = body.encode() if isinstance(body, str) else body
        headers = dict(prepared.headers)
        return httpx.Request(prepared.method, prepared.url, headers=headers, content=content)

    def told(self) -> str:
        """Return what was found, for a person."""
        return "\n".join(f"{what}\n{said}" for what, said in self.found.items())


async def fuzzed(world: World, *, examples: int, seed: int, share: int = 1) -> Fuzz:
    """Return what became of a campaign against an administration that has a past."""
    known = await _with_a_past(world)
    document = (await world.get("/openapi.json")).json()

    def send(request: httpx.Request) -> httpx.Response:
        return anyio.from_thread.run(world.client.send, request)

    fuzz = Fuzz(send=send, known=known, headers={"Authorization": f"Bearer {world.admin_secret}"})
    await anyio.to_thread.run_sync(
        lambda: fuzz.run(document, examples=examples, seed=seed, share=share)
    )
    return fuzz


async def _with_a_past(world: World) -> dict[str, list[str]]:
    """Return ids that exist, by the name of the parameter of a path."""
    await world.post("/tenants", {"id": DEFAULT, "name": "Default"})
    limits = {"tool_calls": 9}
    await world.post(
        "/budgets", {"id": "all", "tenant": TENANT, "scope": "tenant", "limits": limits}
    )
    await world.run_call("call_1")
    token = await world.post(f"/principals/{AGENT}/tokens", {})
    taught = await world.post("/memory/experiences", {"content": "Close the valve first."})
    assert taught.status_code == HTTPStatus.CREATED, taught.text
    return {
        "tenant_id": [TENANT, DEFAULT],
        "budget_id": ["all"],
        "principal_id": [AGENT],
        "token_id": [token.json()["id"]],
        "session_id": [SESSION],
        "call_id": ["call_1"],
        "name": [FILES],
        "index": [taught.json()["index"]],
        "namespace": ["house"],
    }

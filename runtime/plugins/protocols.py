"""What a plug-in of Flyball is: the four kinds, what they are given, and what they answer.

A plug-in is an entry point of an installed package, in one of these groups:

- `flyball.guards`: a callable that is given the settings and returns a `Guard`;
- `flyball.estimators`: one that is given the settings and returns an `Estimator`;
- `flyball.notifiers`: one that is given the settings and returns a `Notifier`;
- `flyball.upstream_kinds`: an `UpstreamKind`, asked whenever an upstream of its kind is opened.

The settings are the table `[plugins.settings.NAME]` of `flyball.toml`. Nothing is loaded unless
`plugins.enabled` names it. Plug-ins run inside the sidecar, in each of its workers: what they
await is ended after `plugins.timeout_ms`, and what they raise is told and counted, but nothing
can end one that never awaits.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCall:
    """One call of a tool as a plug-in sees it; `arguments` is a copy of its own.

    `tool` is the name that agents use, `upstream` what will run it, `rule` the rule of
    `flyball.toml` that governs it. `turn` is None where the client named none.
    """

    call_id: str
    tenant: str
    agent: str
    session: str
    turn: str | None
    tool: str
    upstream: str
    rule: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenResult:
    """What a call was answered with; `content` are MCP's blocks, `text` is what they say."""

    text: str
    content: Sequence[Mapping[str, Any]]
    structured: object
    is_error: bool


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run, as far as this guard is concerned."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the model reads the reason, and what to do instead, if it is said."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person is asked first, who reads the reason; a call that is approved runs once."""

    reason: str


Verdict = Allow | Deny | Ask


@runtime_checkable
class Guard(Protocol):
    """Looks at calls before they run, and at what came of them.

    All guards are asked, in the order of `plugins.enabled`; one denial is enough. A guard that
    fails denies, unless `plugins.guard_failure` says "allow".
    """

    async def before(self, call: SeenCall) -> Verdict:
        """Return whether the call may run."""
        ...

    async def after(self, call: SeenCall, result: SeenResult) -> None:
        """See what came of a call that ran; nothing that happens here changes it."""
        ...


@runtime_checkable
class Estimator(Protocol):
    """Says what a call is expected to use, which is held of budgets while it runs."""

    async def estimate(self, call: SeenCall, held: Mapping[str, int]) -> Mapping[str, int] | None:
        """Return amounts by unit in place of those that would be `held`; None changes nothing.

        Units are those of budgets; money is in millionths of a dollar. What is measured is what
        is charged in the end, and the limits of the rule stand.
        """
        ...


class ToolServer(Protocol):
    """A server of tools, in the JSON of MCP."""

    async def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the definitions: `name`, `description`, `inputSchema` and what else MCP has."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str | Mapping[str, Any]:
        """Return the text of the answer, or a whole result of MCP; what is raised is an error."""
        ...


class UpstreamKind(Protocol):
    """Opens upstreams that are neither a program nor an address."""

    def __call__(
        self, name: str, settings: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[ToolServer]:
        """Return what opens the upstream of that name, which has `settings` of its own.

        It is opened again, after growing pauses, whenever that fails.
        """
        ...


@runtime_checkable
class Notifier(Protocol):
    """Takes notices: thresholds of budgets, denials, approvals."""

    async def notify(self, notices: Sequence[Mapping[str, Any]]) -> None:
        """Take all of these, in order; when it raises, they are brought again later.

        Each is as `GET /admin/v1/notices` shows it, and may come twice: tell them by `seq`.
        """
        ...

"""Who is charged: the chain of scopes from the tenant down to the session."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from governor.errors import InvalidScopeError
from governor.ids import PrincipalId, SessionId, TenantId

# Each level costs every call below it one more account for each unit.
DEPTH_MAX = 8


class ScopeKind(StrEnum):
    """The levels of the chain, widest first."""

    TENANT = "tenant"
    AGENT = "agent"
    SESSION = "session"
    SUB_SESSION = "sub_session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One level of a chain and whom it stands for."""

    kind: ScopeKind
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeChain:
    """The scopes that one call is charged to.

    `ancestors` are the sessions that `session` was carved out of, the first of them first;
    a session of its own has none.

    Raises:
        InvalidScopeError: a session is its own ancestor, or the chain is too deep.
    """

    tenant: TenantId
    agent: PrincipalId
    session: SessionId
    ancestors: tuple[SessionId, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a cycle and a chain without end."""
        if not self.ancestors:
            return
        if len({*self.ancestors, self.session}) != len(self.ancestors) + 1:
            message = f"parent: the session {self.session} would be its own ancestor"
            raise InvalidScopeError(message)
        if len(self.ancestors) > DEPTH_MAX:
            message = f"parent: sessions may be nested {DEPTH_MAX} deep"
            raise InvalidScopeError(message)

    def __iter__(self) -> Iterator[Scope]:
        """Yield the scopes, widest first."""
        yield Scope(kind=ScopeKind.TENANT, subject=self.tenant)
        yield Scope(kind=ScopeKind.AGENT, subject=self.agent)
        root, *below = self.sessions
        yield Scope(kind=ScopeKind.SESSION, subject=root)
        for session in below:
            yield Scope(kind=ScopeKind.SUB_SESSION, subject=session)

    @property
    def sessions(self) -> tuple[SessionId, ...]:
        """Return the sessions of the chain, the one without a parent first."""
        return (*self.ancestors, self.session)

    def subject_of(self, kind: ScopeKind) -> str:
        """Return who stands at `kind` in this chain."""
        match kind:
            case ScopeKind.TENANT:
                return self.tenant
            case ScopeKind.AGENT:
                return self.agent
            case ScopeKind.SESSION:
                return self.sessions[0]
            case ScopeKind.SUB_SESSION:
                return self.session

"""Who is charged: the chain of scopes from the tenant down to the session."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from governor.ids import PrincipalId, SessionId, TenantId


class ScopeKind(StrEnum):
    """The levels of the chain, widest first."""

    TENANT = "tenant"
    AGENT = "agent"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One level of a chain and whom it stands for."""

    kind: ScopeKind
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeChain:
    """The scopes that one call is charged to."""

    tenant: TenantId
    agent: PrincipalId
    session: SessionId

    def __iter__(self) -> Iterator[Scope]:
        """Yield the scopes, widest first."""
        yield Scope(kind=ScopeKind.TENANT, subject=self.tenant)
        yield Scope(kind=ScopeKind.AGENT, subject=self.agent)
        yield Scope(kind=ScopeKind.SESSION, subject=self.session)

    def subject_of(self, kind: ScopeKind) -> str:
        """Return who stands at `kind` in this chain."""
        match kind:
            case ScopeKind.TENANT:
                return self.tenant
            case ScopeKind.AGENT:
                return self.agent
            case ScopeKind.SESSION:
                return self.session

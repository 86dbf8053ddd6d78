"""Who may have what: rules of which each that covers a caller holds, so that none gives back."""

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from governor.ids import PrincipalId, TenantId


class Offer(StrEnum):
    """What can be had: tools and prompts go by their names, resources by their upstream's."""

    TOOL = "tool"
    RESOURCE = "resource"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Names by shell patterns: what `deny` covers is out, of the rest `allow`, None being all."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def takes(self, name: str, *, is_own: bool = False) -> bool:
        """Tell whether a name may be had; of the house's own names only `deny` decides."""
        if any(fnmatchcase(name, pattern) for pattern in self.deny):
            return False
        if is_own or self.allow is None:
            return True
        return any(fnmatchcase(name, pattern) for pattern in self.allow)


EVERYTHING = Choice()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """What the callers that match may have; `is_read_only` leaves them what changes nothing."""

    name: str
    tenant: str = "*"
    agent: str = "*"
    tools: Choice = EVERYTHING
    resources: Choice = EVERYTHING
    prompts: Choice = EVERYTHING
    is_read_only: bool = False

    def covers(self, *, tenant: TenantId, agent: PrincipalId) -> bool:
        """Tell whether the rule is about a caller."""
        return fnmatchcase(tenant, self.tenant) and fnmatchcase(agent, self.agent)

    def choice_of(self, offer: Offer) -> Choice:
        """Return what the rule says of a kind of offer."""
        match offer:
            case Offer.TOOL:
                return self.tools
            case Offer.RESOURCE:
                return self.resources
            case Offer.PROMPT:
                return self.prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """All access rules; one more of them can only take away."""

    rules: tuple[AccessRule, ...] = field(default=())

    def refusing(
        self, offer: Offer, name: str, *, tenant: TenantId, agent: PrincipalId, is_own: bool = False
    ) -> AccessRule | None:
        """Return the first rule that keeps something from a caller, None where none does."""
        for rule in self.rules:
            if rule.covers(tenant=tenant, agent=agent) and not rule.choice_of(offer).takes(
                name, is_own=is_own
            ):
                return rule
        return None

    def read_only_by(self, *, tenant: TenantId, agent: PrincipalId) -> AccessRule | None:
        """Return the first rule by which a caller changes nothing, None where none says so."""
        for rule in self.rules:
            if rule.is_read_only and rule.covers(tenant=tenant, agent=agent):
                return rule
        return None


FREE_ACCESS = Access()

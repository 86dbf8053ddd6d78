"""Signatures of experiences: who wrote one, in which lane, which way nobody can change later."""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from governor.experience.experience import Experience
from governor.experience.kinds import TrustLane
from governor.ids import CallId, ExperienceId, NamespaceId, PrincipalId, TenantId

# So that no other use of a tenant's key can be passed off as a signature, nor this for another.
_DOMAIN: Final = b"flyball experience 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a signature vouches for; `address` is the SHA-256 of the content, in hex."""

    experience_id: ExperienceId
    tenant: TenantId
    namespace: NamespaceId
    address: str
    writer: PrincipalId
    lane: TrustLane
    call_id: CallId | None
    learned_at_ms: int


def claim_of(experience: Experience) -> Claim:
    """Return what the signature of an experience has to vouch for."""
    return Claim(
        experience_id=experience.experience_id,
        tenant=experience.tenant,
        namespace=experience.namespace,
        address=experience.address,
        writer=experience.provenance.writer,
        lane=experience.lane,
        call_id=experience.provenance.call_id,
        learned_at_ms=experience.learned_at_ms,
    )


def sign(claim: Claim, *, key: bytes) -> str:
    """Return the signature of a claim, in hex."""
    fields = (
        claim.experience_id,
        claim.tenant,
        claim.namespace,
        claim.address,
        claim.writer,
        claim.lane.value,
        # A call without an id is another claim than one whose id is empty.
        "-" if claim.call_id is None else f"+{claim.call_id}",
        str(claim.learned_at_ms),
    )
    mac = hmac.new(key, _DOMAIN, sha256)
    for field in fields:
        content = field.encode("utf-8", "surrogatepass")
        # With its length before it no field can pass for a part of its neighbour.
        mac.update(len(content).to_bytes(8, "big"))
        mac.update(content)
    return mac.hexdigest()


def holds(claim: Claim, signature: str, *, key: bytes) -> bool:
    """Tell whether the house has signed exactly this."""
    given = signature.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(sign(claim, key=key).encode(), given)


def proven_lane(experience: Experience, *, key: bytes) -> TrustLane:
    """Return the lane that is proven: its own, or that of strangers where the row was changed."""
    signed = holds(claim_of(experience), experience.signature, key=key)
    return experience.lane if signed else TrustLane.WEB

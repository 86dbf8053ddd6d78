"""Signatures of experiences: who wrote one, in which lane, which way nobody can change later."""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from governor.experience.experience import Draft, Experience
from governor.experience.kinds import TrustLane
from governor.ids import CallId, ExperienceId, NamespaceId, PrincipalId, TenantId

# So that no other use of a tenant's key can be passed off as a signature, nor this for another.
_DOMAIN: Final = b"flyball experience 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a signature vouches for; `address` is the SHA-256 of the content, in hex.

    `about` is the SHA-256 of everything that is said of it and may be shown beside it.
    """

    experience_id: ExperienceId
    tenant: TenantId
    namespace: NamespaceId
    address: str
    writer: PrincipalId
    lane: TrustLane
    call_id: CallId | None
    learned_at_ms: int
    about: str


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
        about=_about(experience),
    )


def claim_of_draft(draft: Draft, *, address: str) -> Claim:
    """Return what the signature of an experience that was drafted like this has to vouch for."""
    return Claim(
        experience_id=draft.experience_id,
        tenant=draft.tenant,
        namespace=draft.namespace,
        address=address,
        writer=draft.provenance.writer,
        lane=draft.lane,
        call_id=draft.provenance.call_id,
        learned_at_ms=draft.learned_at_ms,
        about=_about(draft),
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
        _optional(claim.call_id),
        str(claim.learned_at_ms),
        claim.about,
    )
    return hmac.new(key, _DOMAIN + _apart(fields), sha256).hexdigest()


def holds(claim: Claim, signature: str, *, key: bytes) -> bool:
    """Tell whether the house has signed exactly this."""
    given = signature.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(sign(claim, key=key).encode(), given)


def proven_lane(experience: Experience, *, key: bytes) -> TrustLane:
    """Return the lane that is proven: its own, or that of strangers where the row was changed."""
    signed = holds(claim_of(experience), experience.signature, key=key)
    return experience.lane if signed else TrustLane.WEB


def _about(said: Draft | Experience) -> str:
    provenance = said.provenance
    fields = (
        said.kind.value,
        said.media_type,
        said.summary,
        said.actor,
        provenance.source,
        _optional(provenance.upstream),
        _optional(said.session),
        _optional(said.task_class),
        _optional(said.supersedes),
        str(len(said.tags)),
        *said.tags,
        *provenance.derived_from,
    )
    return sha256(_apart(fields)).hexdigest()


def _optional(field: str | None) -> str:
    """Return a field so that none is another than an empty one."""
    return "-" if field is None else f"+{field}"


def _apart(fields: Iterable[str]) -> bytes:
    """Return fields in a row: with its length before it none passes for a part of its neighbour."""
    parts = []
    for field in fields:
        content = field.encode("utf-8", "surrogatepass")
        parts += [len(content).to_bytes(8, "big"), content]
    return b"".join(parts)

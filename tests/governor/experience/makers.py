"""Experiences for tests, with what does not matter filled in."""

from dataclasses import dataclass, field, replace

from governor.experience.experience import Experience, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.ids import ExperienceId, NamespaceId, PrincipalId, TenantId

OWN = NamespaceId("ns_own")
OTHERS = NamespaceId("ns_shared")
_PLAIN = Experience(
    experience_id=ExperienceId("exp_1"),
    number=1,
    tenant=TenantId("acme"),
    namespace=OWN,
    kind=ExperienceKind.OBSERVATION,
    lane=TrustLane.AGENT,
    standing=Standing.ACTIVE,
    address="00" * 32,
    size_bytes=5,
    tokens=2,
    media_type="text/plain",
    summary="a summary",
    provenance=Provenance(writer=PrincipalId("ada"), source="a note"),
    learned_at_ms=1_000,
    valid_from_ms=1_000,
    valid_until_ms=None,
    actor="",
    session=None,
    task_class=None,
    tags=(),
    cost_microusd=None,
    outcome=None,
    supersedes=None,
    superseded_by=None,
    expires_at_ms=None,
    signature="",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a test says of an experience."""

    lane: TrustLane = TrustLane.AGENT
    standing: Standing = Standing.ACTIVE
    namespace: NamespaceId = OWN
    index: str = "exp_1"
    writer: str = "ada"
    upstream: str | None = None
    source: str = "a note"
    actor: str = ""
    tags: tuple[str, ...] = ()
    supersedes: ExperienceId | None = None
    derived_from: tuple[ExperienceId, ...] = field(default=())


def experience(said: Said) -> Experience:
    """Return an experience of which this is so."""
    return replace(
        _PLAIN,
        experience_id=ExperienceId(said.index),
        lane=said.lane,
        standing=said.standing,
        namespace=said.namespace,
        actor=said.actor,
        tags=said.tags,
        supersedes=said.supersedes,
        provenance=Provenance(
            writer=PrincipalId(said.writer),
            upstream=said.upstream,
            source=said.source,
            derived_from=said.derived_from,
        ),
    )

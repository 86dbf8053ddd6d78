"""Signatures of experiences."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.experience import Draft
from governor.experience.kinds import TrustLane
from governor.experience.signing import Claim, claim_of, claim_of_draft, holds, proven_lane, sign
from governor.ids import CallId, ExperienceId, NamespaceId, PrincipalId, TenantId
from tests.governor.experience.makers import Said, experience

KEY = b"a tenant's key"
TEXTS = st.text(max_size=12)
CLAIMS = st.builds(
    Claim,
    experience_id=TEXTS.map(ExperienceId),
    tenant=TEXTS.map(TenantId),
    namespace=TEXTS.map(NamespaceId),
    address=TEXTS,
    writer=TEXTS.map(PrincipalId),
    lane=st.sampled_from(TrustLane),
    call_id=st.one_of(st.none(), TEXTS.map(CallId)),
    learned_at_ms=st.integers(0, 2**62),
    about=TEXTS,
)


@pytest.mark.requirement("memory.signed-writers")
@given(one=CLAIMS, other=CLAIMS, key=st.binary(max_size=80))
def test_a_signature_holds_for_its_own_claim_alone(one: Claim, other: Claim, key: bytes) -> None:
    signature = sign(one, key=key)

    assert holds(one, signature, key=key)
    assert holds(other, signature, key=key) == (one == other)


@pytest.mark.requirement("memory.signed-writers")
@given(claim=CLAIMS, data=st.data())
def test_every_part_of_a_claim_counts(claim: Claim, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([field.name for field in fields(Claim)]))
    other = data.draw(CLAIMS)
    changed = replace(claim, **{name: getattr(other, name)})

    assert holds(changed, sign(claim, key=KEY), key=KEY) == (changed == claim)


@given(first=TEXTS, second=TEXTS, at=st.integers(0, 12))
def test_what_is_moved_from_one_part_to_its_neighbour_is_another_claim(
    first: str, second: str, at: int
) -> None:
    joined = first + second
    claim = replace(claim_of(experience(Said())), address=first, writer=PrincipalId(second))
    moved = replace(claim, address=joined[:at], writer=PrincipalId(joined[at:]))

    assert holds(moved, sign(claim, key=KEY), key=KEY) == (moved == claim)


def test_another_tenants_key_signs_nothing_here() -> None:
    claim = claim_of(experience(Said()))

    assert not holds(claim, sign(claim, key=b"another"), key=KEY)
    assert not holds(claim, "", key=KEY)
    assert not holds(claim, "é" * 64, key=KEY)


@pytest.mark.requirement("memory.signed-writers")
def test_a_row_whose_lane_was_changed_is_a_strangers() -> None:
    written = experience(Said(lane=TrustLane.TOOL))
    signed = replace(written, signature=sign(claim_of(written), key=KEY))
    forged = replace(signed, lane=TrustLane.OPERATOR)

    assert proven_lane(signed, key=KEY) is TrustLane.TOOL
    assert proven_lane(forged, key=KEY) is TrustLane.WEB


@pytest.mark.requirement("memory.signed-writers")
@pytest.mark.parametrize(
    "changed",
    [
        Said(lane=TrustLane.OPERATOR, source="another"),
        Said(lane=TrustLane.OPERATOR, actor="another"),
        Said(lane=TrustLane.OPERATOR, upstream=""),
        Said(lane=TrustLane.OPERATOR, tags=("one", "two")),
        Said(lane=TrustLane.OPERATOR, tags=("one",), derived_from=(ExperienceId("two"),)),
        Said(lane=TrustLane.OPERATOR, supersedes=ExperienceId("exp_0")),
    ],
)
def test_what_is_said_of_an_experience_cannot_be_changed_either(changed: Said) -> None:
    written = experience(Said(lane=TrustLane.OPERATOR))
    signature = sign(claim_of(written), key=KEY)
    forged = replace(experience(changed), signature=signature)
    retold = replace(written, signature=signature, summary="do as I say")

    assert proven_lane(replace(written, signature=signature), key=KEY) is TrustLane.OPERATOR
    assert proven_lane(forged, key=KEY) is TrustLane.WEB
    assert proven_lane(retold, key=KEY) is TrustLane.WEB


def test_a_draft_is_signed_as_the_experience_that_it_becomes() -> None:
    kept = experience(Said(tags=("a", "b"), upstream="mail", derived_from=(ExperienceId("exp_0"),)))
    draft = Draft(
        experience_id=kept.experience_id,
        tenant=kept.tenant,
        namespace=kept.namespace,
        kind=kept.kind,
        lane=kept.lane,
        content=b"",
        media_type=kept.media_type,
        summary=kept.summary,
        provenance=kept.provenance,
        learned_at_ms=kept.learned_at_ms,
        valid_from_ms=kept.valid_from_ms,
        tags=kept.tags,
    )

    assert claim_of_draft(draft, address=kept.address) == claim_of(kept)

"""Signatures of experiences."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.kinds import TrustLane
from governor.experience.signing import Claim, claim_of, holds, proven_lane, sign
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

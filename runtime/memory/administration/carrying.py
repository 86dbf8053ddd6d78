"""Experiences as an administrator carries them out of a house and into one, as lines."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from governor.experience.kinds import Standing, TrustLane
from governor.experience.trust import Attempt, Way, decide, is_as_trusted
from governor.ids import TenantId
from memory_store.experiences.lines import Carried
from memory_store.experiences.transfer import Put, Taken, Transfer

# A content of 64 MiB in base64, with what is said of it.
LINE_BYTES_MAX = 96 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedIn:
    """What became of lines, and of how many this house thinks less than their file says.

    `demoted` stand in a lane that is trusted less, `quarantined` wait to be promoted.
    """

    taken: Taken
    demoted: int
    quarantined: int


async def taken_from(
    transfer: Transfer,
    body: bytes,
    *,
    tenant: TenantId,
    now_ms: int,
    vouched: TrustLane | None = None,
) -> CarriedIn:
    """Return what became of the lines of `body`: each is placed anew by who vouches for it.

    What this house has signed gets back the lane that it had; anything else is a stranger's, or
    where an administrator vouches for the file stands where that says, at best where it `vouched`.

    Raises:
        StoreError: the store does not take them; send them again.
    """
    demoted = quarantined = 0

    def place(carried: Carried, is_signed: bool) -> Put:  # noqa: FBT001 - the store's own port
        nonlocal demoted, quarantined
        put, draft = _placed(carried, vouched, is_signed=is_signed), carried.indexed.draft
        demoted += not is_as_trusted(put.lane, draft.lane)
        quarantined += put.standing is Standing.QUARANTINED and draft.standing is not put.standing
        return put

    taken = await transfer.take(_lines(body), place, tenant=tenant, now_ms=now_ms)
    return CarriedIn(taken=taken, demoted=demoted, quarantined=quarantined)


async def _lines(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines():
        if line.strip():
            yield line


def _placed(carried: Carried, vouched: TrustLane | None, *, is_signed: bool) -> Put:
    draft = carried.indexed.draft
    placed = decide(
        Attempt(
            way=Way.RESTORED,
            writer=draft.provenance.writer,
            kind=draft.kind,
            saw_untrusted=False,
            claimed=draft.lane,
            is_signed=is_signed,
            stood=draft.standing,
            vouched=vouched,
        )
    )
    return Put(
        lane=placed.lane,
        standing=placed.standing,
        takes_effect=carried.indexed.takes_effect and (placed.supersedes or is_signed),
    )

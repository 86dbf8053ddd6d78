"""Experiences as an administrator carries them out of a house and into one, as lines."""

from collections.abc import AsyncIterator

from governor.experience.trust import Attempt, Way, decide
from governor.ids import TenantId
from memory_store.experiences.lines import Carried
from memory_store.experiences.transfer import Put, Taken, Transfer

# A content of 64 MiB in base64, with what is said of it.
LINE_BYTES_MAX = 96 * 1024 * 1024


async def taken_from(transfer: Transfer, body: bytes, *, tenant: TenantId, now_ms: int) -> Taken:
    """Return what became of the lines of `body`: each is placed anew by who vouches for it.

    What this house has signed gets back the lane that it had; anything else is a stranger's.

    Raises:
        StoreError: the store does not take them; send them again.
    """
    return await transfer.take(_lines(body), _place, tenant=tenant, now_ms=now_ms)


async def _lines(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines():
        if line.strip():
            yield line


def _place(carried: Carried, is_signed: bool) -> Put:  # noqa: FBT001 - the store's own port
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
        )
    )
    return Put(
        lane=placed.lane,
        standing=placed.standing,
        takes_effect=carried.indexed.takes_effect and (placed.supersedes or is_signed),
    )

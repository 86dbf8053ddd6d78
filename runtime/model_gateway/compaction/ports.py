"""What compaction needs of whoever keeps contents."""

from collections.abc import Sequence
from typing import Protocol

from governor.experience.keepsake import Keepsake
from governor.ids import ExperienceId
from governor.scope import ScopeChain


class ContentKeeper(Protocol):
    """Whoever keeps what gives way."""

    async def keep(
        self, keepsakes: Sequence[Keepsake], *, chain: ScopeChain
    ) -> frozenset[ExperienceId]:
        """Return the indices under which the agent of `chain` can read what it was given.

        What was kept before is not written again. Never raises: what cannot be kept is not among
        the indices, and counted.
        """
        ...

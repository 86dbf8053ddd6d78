"""The keys that agents are given: each stands for one session, as long as its agent lives."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from governor.ids import PrincipalId
from memory_store.audit import Actor
from memory_store.errors import NotFoundError, StoreError
from memory_store.principals import PrincipalBook
from memory_store.tokens import IssuedToken
from runtime.seat import SessionBinding
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)

FOLDER = "run_keys"
REVOKE_SECONDS_MAX = 5.0


class RunKeys:
    """Issues keys, and revokes them even if the sidecar that issued them was killed.

    A file in the state directory, named by the key and without its secret, says that one is to
    be revoked. It is there before anybody is given the key, and until that is of no use.
    """

    def __init__(
        self, *, principals: PrincipalBook, binding: SessionBinding, clock: Clock, state_dir: Path
    ) -> None:
        """Take where tokens are kept, who knows their sessions, and the state directory."""
        self._principals = principals
        self._binding = binding
        self._clock = clock
        self._folder = state_dir / FOLDER

    @asynccontextmanager
    async def key(self, principal: PrincipalId, *, session_name: str) -> AsyncIterator[IssuedToken]:
        """Yield a key that stands for this session, and for nothing after the block.

        Most clients can be given a key and an address, and no header.

        Raises:
            StoreError: there can be none.
        """
        by = Actor(name=principal)
        issued = await self._principals.issue_token(
            principal, expires_at_ms=None, by=by, now_ms=self._clock.now_ms()
        )
        self._binding.bind(issued.token_id, session_name)
        try:
            self._note(issued.token_id)
            yield issued
        finally:
            is_revoked = False
            with anyio.move_on_after(REVOKE_SECONDS_MAX, shield=True):
                is_revoked = await self._revoke(issued.token_id, by=by)
            # While it is good for anything, it is for this session alone.
            if is_revoked:
                self._binding.release(issued.token_id)

    def pin_of(self, token_id: str) -> str | None:
        """Return the name of the session that a key was issued for, None if it is no such key."""
        return self._binding.pin_of(token_id)

    async def revoke_left(self) -> None:
        """Revoke what a sidecar on this state directory has left that could not do it itself."""
        if not self._folder.is_dir():
            return
        for left in sorted(self._folder.iterdir()):
            await self._revoke(left.name, by=Actor(name="sidecar"))

    def _note(self, token_id: str) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        (self._folder / token_id).touch(mode=0o600)

    async def _revoke(self, token_id: str, *, by: Actor) -> bool:
        """Revoke a key, or leave word that this is still to be done; tell which."""
        try:
            await self._principals.revoke_token(token_id, by=by, now_ms=self._clock.now_ms())
        except NotFoundError:
            """It is of another store, or was removed with its principal."""
        except StoreError as error:
            logger.warning("the key %s of an agent could not be revoked yet: %s", token_id, error)
            return False
        (self._folder / token_id).unlink(missing_ok=True)
        return True

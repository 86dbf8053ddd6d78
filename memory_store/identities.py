"""Identities that were proven lately, so that a call need not prove its token again."""

import threading
from dataclasses import dataclass
from enum import StrEnum

from governor.ids import PrincipalId, TenantId

_REMEMBERED_MAX = 4_096
# Where other sidecars may revoke a token, this long after they did it is still accepted.
SHARED_PROOF_MS = 1_000


class Role(StrEnum):
    """What a principal may do: run calls, or administer."""

    AGENT = "agent"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a token stands for."""

    tenant: TenantId
    principal: PrincipalId
    name: str
    role: Role
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """An identity and the time after which its token no longer shows it."""

    identity: Identity
    expires_at_ms: int | None

    def holds_at(self, now_ms: int) -> bool:
        """Tell whether the token has not expired."""
        return self.expires_at_ms is None or now_ms < self.expires_at_ms


class Identities:
    """A bounded cache by hash of the secret, shared by the loop and the writer's thread.

    Whoever changes a token, a principal or a tenant calls `forget_all` after COMMIT. A
    lookup that read before that and answers after it is recognised by its `epoch` and
    not remembered: a revoked token cannot come back. What other sidecars change is noticed
    because nothing is remembered for longer than `remembered_ms`; None is for ever.
    """

    def __init__(self, *, remembered_ms: int | None = None) -> None:
        self._remembered_ms = remembered_ms
        self._lock = threading.Lock()
        self._by_hash: dict[str, tuple[Proof, int]] = {}
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Return a number that grows with each `forget_all`."""
        return self._epoch

    def get(self, secret_hash: str, *, now_ms: int, grace_ms: int = 0) -> Proof | None:
        """Return what is remembered, or was until `grace_ms` ago."""
        proof, asked_at_ms = self._by_hash.get(secret_hash, (None, now_ms))
        if self._remembered_ms is None:
            return proof
        # A clock that steps back must not make it last.
        is_old = abs(now_ms - asked_at_ms) > self._remembered_ms + grace_ms
        return None if is_old else proof

    def remember(self, secret_hash: str, proof: Proof, *, epoch: int, asked_at_ms: int) -> None:
        """Keep `proof`, which was asked for at `asked_at_ms` and read at `epoch`."""
        with self._lock:
            if epoch != self._epoch:
                return
            if secret_hash not in self._by_hash and len(self._by_hash) >= _REMEMBERED_MAX:
                self._by_hash.pop(next(iter(self._by_hash)))
            self._by_hash[secret_hash] = (proof, asked_at_ms)

    def forget_all(self) -> None:
        """Prove every token anew."""
        with self._lock:
            self._epoch += 1
            self._by_hash.clear()

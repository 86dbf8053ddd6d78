"""Identities that were proven lately, so that a call need not prove its token again."""

import threading
from dataclasses import dataclass
from enum import StrEnum

from governor.ids import PrincipalId, TenantId

_REMEMBERED_MAX = 4_096


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
    not remembered: a revoked token cannot come back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_hash: dict[str, Proof] = {}
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Return a number that grows with each `forget_all`."""
        return self._epoch

    def get(self, secret_hash: str) -> Proof | None:
        """Return what is remembered."""
        return self._by_hash.get(secret_hash)

    def remember(self, secret_hash: str, proof: Proof, *, epoch: int) -> None:
        """Keep `proof`, which was read at `epoch`."""
        with self._lock:
            if epoch != self._epoch:
                return
            if len(self._by_hash) >= _REMEMBERED_MAX:
                self._by_hash.pop(next(iter(self._by_hash)))
            self._by_hash[secret_hash] = proof

    def forget_all(self) -> None:
        """Prove every token anew."""
        with self._lock:
            self._epoch += 1
            self._by_hash.clear()

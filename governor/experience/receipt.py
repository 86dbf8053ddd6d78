"""Receipts: what a reader can later show to prove which bytes it was given, and when."""

import hashlib
import hmac
from dataclasses import dataclass, replace

from governor.ids import ExperienceId, TenantId

_DOMAIN = "flyball receipt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was read: the whole content with that address, logged by that entry.

    `head_number` and `head_hash` are the end of the tenant's log at that time, so a receipt also
    pins all that was logged before it. `signature` is empty until it is signed.
    """

    experience_id: ExperienceId
    tenant: TenantId
    address: str
    size_bytes: int
    entry_number: int
    entry_hash: str
    head_number: int
    head_hash: str
    signature: str = ""


def signed(receipt: Receipt, *, secret: bytes) -> Receipt:
    """Return the receipt with the signature of whoever has the secret."""
    return replace(receipt, signature=_signature(receipt, secret))


def is_genuine(receipt: Receipt, *, secret: bytes) -> bool:
    """Tell whether the receipt was signed with that secret and not changed since."""
    return hmac.compare_digest(receipt.signature.encode(), _signature(receipt, secret).encode())


def is_of(receipt: Receipt, content: bytes) -> bool:
    """Tell whether `content`, whole, is what the receipt is for."""
    address = hashlib.sha256(content).hexdigest()
    return len(content) == receipt.size_bytes and address == receipt.address


def _signature(receipt: Receipt, secret: bytes) -> str:
    parts = (
        _DOMAIN,
        receipt.experience_id,
        receipt.tenant,
        receipt.address,
        str(receipt.size_bytes),
        str(receipt.entry_number),
        receipt.entry_hash,
        str(receipt.head_number),
        receipt.head_hash,
    )
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), "sha256").hex()

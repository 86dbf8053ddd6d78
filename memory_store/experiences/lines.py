"""Experiences as lines of JSON, in which they travel whole from one store to another."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.ids import ExperienceId, NamespaceId, PrincipalId, TenantId
from memory_store.errors import InvalidExperienceError
from memory_store.experiences.values import CONTENT_BYTES_MAX, Indexed, Superseded
from memory_store.rows import json_of

FORMAT = "flyball-experience-1"
_DOMAIN = "flyball line"
# The content in base64, and room for everything else.
LINE_BYTES_MAX = CONTENT_BYTES_MAX * 4 // 3 + 1024 * 1024

# Who reads a line says which tenant it is for.
_ELSEWHERE = TenantId("")
# What a line says of an experience under the name of the draft's field.
_PLAIN = (
    "experience_id", "media_type", "summary", "learned_at_ms", "valid_from_ms", "valid_until_ms",
    "actor", "session", "task_class", "cost_microusd", "outcome", "supersedes", "expires_at_ms",
)  # fmt: skip
_SOURCE = ("writer", "call_id", "upstream", "source")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "experience_id": (str,),
    "media_type": (str,),
    "summary": (str,),
    "learned_at_ms": (int,),
    "valid_from_ms": (int,),
    "valid_until_ms": (int, type(None)),
    "actor": (str,),
    "session": (str, type(None)),
    "task_class": (str, type(None)),
    "cost_microusd": (int, type(None)),
    "outcome": (int, float, type(None)),
    "supersedes": (str, type(None)),
    "expires_at_ms": (int, type(None)),
    "writer": (str,),
    "call_id": (str, type(None)),
    "upstream": (str, type(None)),
    "source": (str,),
    "terms": (str,),
    "traits": (int,),
    "tokens": (int,),
    "signature": (str,),
    "namespace": (str,),
    "owner": (str, type(None)),
    "takes_effect": (bool,),
    "content": (str,),
    "vector": (str, type(None)),
    "superseded": (list, type(None)),
    "seal": (str,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """An experience as a line carries it: as it was drafted, and what the store knew besides.

    `namespace` and `owner` say where it was, by name. `signature` is that of the house it is
    from, `origin` the namespace's id there, which the signature is about. What stood superseded
    is carried as active: its correction follows, or what it was is said. `seal` is what proves
    to the house it is from that the line, whose digest is `digest`, is as it was written.
    """

    indexed: Indexed
    namespace: str
    owner: PrincipalId | None
    origin: NamespaceId
    signature: str
    digest: str
    seal: str

    def is_sealed(self, secret: bytes) -> bool:
        """Tell whether the line is as somebody who has the secret wrote it."""
        return hmac.compare_digest(self.seal.encode(), _seal(self.digest, secret).encode())


def line_of(
    stated: Experience,
    *,
    content: bytes,
    terms: str,
    vector: bytes | None,
    traits: int,
    takes_effect: bool,
    superseded: Superseded | None,
    namespace: str,
    owner: PrincipalId | None,
    secret: bytes,
) -> bytes:
    """Return the line of an experience, as it was written before anything corrected it.

    Its seal proves to whoever has the secret that nobody changed the line.
    """
    standing = Standing.ACTIVE if stated.standing is Standing.SUPERSEDED else stated.standing
    provenance = stated.provenance
    line = {
        "format": FORMAT,
        "namespace": namespace,
        "owner": owner,
        "origin": stated.namespace,
        "kind": stated.kind.value,
        "lane": stated.lane.value,
        "standing": standing.value,
        "tags": list(stated.tags),
        "derived_from": list(provenance.derived_from),
        "terms": terms,
        "traits": traits,
        "tokens": stated.tokens,
        "takes_effect": takes_effect,
        "signature": stated.signature,
        "vector": None if vector is None else base64.b64encode(vector).decode(),
        "content": base64.b64encode(content).decode(),
        **{name: getattr(stated, name) for name in _PLAIN},
        **{name: getattr(provenance, name) for name in _SOURCE},
        "superseded": None
        if superseded is None
        else [superseded.by, superseded.at_ms, superseded.from_ms],
    }
    line["seal"] = _seal(_digest_of(line), secret)
    return json_of(line).encode() + b"\n"


def carried_of(line: bytes) -> Carried:
    """Return the experience that a line carries.

    Raises:
        InvalidExperienceError: it carries none; the message says what is wrong with it.
    """
    if len(line) > LINE_BYTES_MAX:
        message = f"a line of {len(line)} bytes is above the {LINE_BYTES_MAX} of one experience"
        raise InvalidExperienceError(message)
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidExperienceError(_not("JSON in UTF-8")) from None
    if not isinstance(read, dict) or read.get("format") != FORMAT:
        raise InvalidExperienceError(_not(f"of the format {FORMAT}"))
    try:
        return _carried(read)
    except KeyError as error:
        raise InvalidExperienceError(_not(f"whole: {error.args[0]} is missing")) from None
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidExperienceError(_not(f"readable: {error}")) from None


def _not(what: str) -> str:
    return f"the line is not {what}; lines are made by `flyball memory export`"


def _carried(read: Mapping[str, Any]) -> Carried:
    for name, kinds in _TYPES.items():
        # True is an int to Python, and no number to anybody else.
        if type(read[name]) not in kinds:
            message = f"{name} is a {type(read[name]).__name__}"
            raise TypeError(message)
    origin = NamespaceId(_text(read["origin"]))
    draft = Draft(
        **{name: read[name] for name in _PLAIN},
        tenant=_ELSEWHERE,
        namespace=origin,
        kind=ExperienceKind(read["kind"]),
        lane=TrustLane(read["lane"]),
        standing=Standing(read["standing"]),
        content=base64.b64decode(read["content"], validate=True),
        provenance=Provenance(
            **{name: read[name] for name in _SOURCE},
            derived_from=tuple(ExperienceId(_text(one)) for one in read["derived_from"]),
        ),
        tags=tuple(_text(one) for one in read["tags"]),
    )
    vector = read["vector"]
    return Carried(
        indexed=Indexed(
            draft=draft,
            terms=read["terms"],
            vector=None if vector is None else base64.b64decode(vector, validate=True),
            traits=read["traits"],
            tokens=read["tokens"],
            takes_effect=read["takes_effect"],
            brought_back=True,
            superseded=_superseded(read["superseded"]),
        ),
        namespace=read["namespace"],
        owner=read["owner"],
        origin=origin,
        signature=read["signature"],
        digest=_digest_of({name: read[name] for name in read if name != "seal"}),
        seal=read["seal"],
    )


def _superseded(listed: list[Any] | None) -> Superseded | None:
    if listed is None:
        return None
    by, at_ms, from_ms = listed
    if type(at_ms) is not int or type(from_ms) is not int:
        message = "superseded holds something else than an id and two times"
        raise TypeError(message)
    return Superseded(by=ExperienceId(_text(by)), at_ms=at_ms, from_ms=from_ms)


def _digest_of(line: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_of(line).encode()).hexdigest()


def _seal(digest: str, secret: bytes) -> str:
    return hmac.digest(secret, f"{_DOMAIN} {digest}".encode(), "sha256").hex()


def _text(value: object) -> str:
    if not isinstance(value, str):
        message = f"a {type(value).__name__} stands where text is meant"
        raise TypeError(message)
    return value

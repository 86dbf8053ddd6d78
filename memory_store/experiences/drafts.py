"""Drafts as they can be kept: looked through, with their address, their text made storable.

Contents are bytes and kept as they are. Other text is kept as text that every database holds: a
NUL becomes the sign for it (U+2400), half of a surrogate pair its escape. Names by which things
are looked up are not changed: one that cannot be stored is refused.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from governor.experience.experience import Draft, Experience
from governor.experience.kinds import Standing
from governor.ids import ExperienceId, TenantId
from memory_store.errors import ExperienceTooLargeError, InvalidExperienceError, UnstorableError
from memory_store.experiences.values import Indexed, Superseded, WriteLimits

INLINE_BYTES_MAX = 4 * 1024
# What one write may bring, so that nobody behind it waits for long.
DRAFTS_MAX = 1_000
SUMMARY_CHARS_MAX = 4_000
NAME_CHARS_MAX = 1_000
LISTED_MAX = 1_000
VECTOR_BYTES_MAX = 8 * 1024
_INT64_MAX = 2**63 - 1
# What an index has room for.
_INT32_MAX = 2**31 - 1
# It is shown to models and stands in addresses, so it cannot say anything else.
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Of the upper byte of a float16: whether it is infinite, or no number at all.
_EXPONENT = 0x7C
_ENDLESS = bytes(byte & _EXPONENT == _EXPONENT for byte in range(256))
_NUL_SIGN = "\u2400"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyDraft:
    """A draft that can be kept; `experience` has no number and no signature yet."""

    experience: Experience
    content: bytes
    terms: str
    vector: bytes | None
    traits: int
    takes_effect: bool
    brought_back: bool
    superseded: Superseded | None

    @property
    def is_blob(self) -> bool:
        """Tell whether the content is too large to stand in the row."""
        return len(self.content) > INLINE_BYTES_MAX


def prepared(drafts: Sequence[Indexed], limits: WriteLimits) -> tuple[ReadyDraft, ...]:
    """Return the drafts as they can be kept, all of one tenant.

    Raises:
        ExperienceTooLargeError: a content is above the limit.
        InvalidExperienceError: one contradicts itself, or they are too many at once.
        UnstorableError: a name or a number is not one that a database holds.
    """
    if len(drafts) > DRAFTS_MAX:
        message = f"{len(drafts)} experiences at once are above the {DRAFTS_MAX} of one write"
        raise InvalidExperienceError(message)
    if len({indexed.draft.tenant for indexed in drafts}) > 1:
        message = "one write is of one tenant"
        raise InvalidExperienceError(message)
    return tuple(_prepared(indexed, limits) for indexed in drafts)


def within(ids: Sequence[ExperienceId]) -> Sequence[ExperienceId]:
    """Return `ids`, if they are not too many to be asked for at once.

    Raises:
        InvalidExperienceError: they are.
    """
    if len(ids) > LISTED_MAX:
        message = f"{len(ids)} experiences at once are above {LISTED_MAX}; ask for fewer"
        raise InvalidExperienceError(message)
    return ids


def address_of(content: bytes) -> str:
    """Return the address of a content, by which it proves to be what was written."""
    return hashlib.sha256(content).hexdigest()


def storable_text(text: str) -> str:
    """Return `text` as every database holds it."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", _NUL_SIGN)


def checked_names(**names: str | None) -> None:
    """Return if all of these can be looked up by.

    Raises:
        UnstorableError: one holds what a database does not.
    """
    at_fault = tuple(
        name for name, text in names.items() if text is not None and not _is_name(text)
    )
    if at_fault:
        raise UnstorableError(names=at_fault)


def _is_name(text: str) -> bool:
    if text.isascii():
        return "\0" not in text and len(text) <= NAME_CHARS_MAX
    return storable_text(text) == text and len(text) <= NAME_CHARS_MAX


def _prepared(indexed: Indexed, limits: WriteLimits) -> ReadyDraft:
    draft = indexed.draft
    if len(draft.content) > limits.content_bytes_max:
        message = (
            f"{len(draft.content)} bytes are above the {limits.content_bytes_max} of one "
            "experience; write it in parts"
        )
        raise ExperienceTooLargeError(message)
    _check(indexed)
    return ReadyDraft(
        experience=_drafted(indexed),
        content=draft.content,
        terms=storable_text(indexed.terms),
        vector=indexed.vector,
        traits=indexed.traits,
        # What nobody vouches for yet corrects nothing; it does when it is promoted.
        takes_effect=indexed.takes_effect and draft.standing is Standing.ACTIVE,
        brought_back=indexed.brought_back,
        superseded=indexed.superseded,
    )


def _check(indexed: Indexed) -> None:
    draft, provenance = indexed.draft, indexed.draft.provenance
    checked_names(
        experience_id=draft.experience_id,
        tenant=draft.tenant,
        namespace=draft.namespace,
        session=draft.session,
        task_class=draft.task_class,
        writer=provenance.writer,
        call_id=provenance.call_id,
        upstream=provenance.upstream,
    )
    wrong = _contradiction(draft) or _excess(indexed)
    if wrong:
        raise InvalidExperienceError(wrong)
    numbers = {
        "learned_at_ms": draft.learned_at_ms,
        "valid_from_ms": draft.valid_from_ms,
        "valid_until_ms": draft.valid_until_ms or 0,
        "expires_at_ms": draft.expires_at_ms or 0,
        "cost_microusd": draft.cost_microusd or 0,
        "traits": indexed.traits,
        "tokens": indexed.tokens,
    }
    if indexed.superseded is not None:
        checked_names(superseded_by=indexed.superseded.by)
        numbers |= {
            "superseded_at_ms": indexed.superseded.at_ms,
            "superseded_from_ms": indexed.superseded.from_ms,
        }
    at_fault = tuple(
        name
        for name, value in numbers.items()
        if not 0 <= value <= (_INT32_MAX if name in ("traits", "tokens") else _INT64_MAX)
    )
    if at_fault:
        raise UnstorableError(names=at_fault)


def _contradiction(draft: Draft) -> str:
    if not _ID.fullmatch(draft.experience_id):
        return "an experience_id is 1 to 64 letters, digits, hyphens and underscores"
    if draft.valid_until_ms is not None and draft.valid_until_ms < draft.valid_from_ms:
        return "valid_until_ms is before valid_from_ms: what was true ended after it began"
    if draft.outcome is not None and not 0 <= draft.outcome <= 1:
        return "outcome is not between 0 and 1"
    if draft.standing is Standing.SUPERSEDED:
        return "nothing is written as superseded; write its correction"
    if draft.experience_id in (draft.supersedes, *draft.provenance.derived_from):
        return "an experience neither corrects itself nor is made of itself"
    return ""


def _excess(indexed: Indexed) -> str:
    draft = indexed.draft
    if len(draft.summary) > SUMMARY_CHARS_MAX:
        return f"the summary is above {SUMMARY_CHARS_MAX} characters; keep the rest as content"
    if len(draft.tags) > LISTED_MAX or len(draft.provenance.derived_from) > LISTED_MAX:
        return f"more than {LISTED_MAX} tags or sources"
    short = (draft.actor, draft.media_type, draft.provenance.source, *draft.tags)
    if any(len(text) > NAME_CHARS_MAX for text in short):
        return f"an actor, media type, source or tag is above {NAME_CHARS_MAX} characters"
    if indexed.vector is not None and (
        len(indexed.vector) % 2 or len(indexed.vector) > VECTOR_BYTES_MAX
    ):
        return f"the vector is not float16, or above {VECTOR_BYTES_MAX} bytes"
    if indexed.vector is not None and 1 in indexed.vector[1::2].translate(_ENDLESS):
        return "the vector holds what is no number"
    return ""


def _drafted(indexed: Indexed) -> Experience:
    """Return a draft as an experience, with no number and no signature yet."""
    draft, provenance = indexed.draft, indexed.draft.provenance
    return Experience(
        experience_id=draft.experience_id,
        number=0,
        tenant=TenantId(draft.tenant),
        namespace=draft.namespace,
        kind=draft.kind,
        lane=draft.lane,
        standing=draft.standing,
        address=address_of(draft.content),
        size_bytes=len(draft.content),
        tokens=indexed.tokens,
        media_type=storable_text(draft.media_type),
        summary=storable_text(draft.summary),
        provenance=replace(
            provenance,
            source=storable_text(provenance.source),
            derived_from=tuple(dict.fromkeys(provenance.derived_from)),
        ),
        learned_at_ms=draft.learned_at_ms,
        valid_from_ms=draft.valid_from_ms,
        valid_until_ms=draft.valid_until_ms,
        actor=storable_text(draft.actor),
        session=draft.session,
        task_class=draft.task_class,
        tags=tuple(storable_text(tag) for tag in draft.tags),
        cost_microusd=draft.cost_microusd,
        outcome=None if draft.outcome is None else float(draft.outcome),
        supersedes=draft.supersedes,
        superseded_by=None,
        expires_at_ms=draft.expires_at_ms,
        signature="",
    )

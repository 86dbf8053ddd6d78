"""What one write of experiences has decided, written together at its end."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Table, bindparam, insert

from governor.experience.chain import LogEvent, digest_of
from governor.experience.experience import Experience
from governor.experience.kinds import Standing, TrustLane
from governor.experience.signing import claim_of, sign
from governor.ids import ExperienceId, NamespaceId
from memory_store.errors import (
    ExperienceRevokedError,
    ExperienceSupersededError,
    NamespaceNotFoundError,
)
from memory_store.experiences.drafts import ReadyDraft
from memory_store.experiences.heads import Head
from memory_store.experiences.known import KnownRow, Met, row_of
from memory_store.experiences.rows import columns_of
from memory_store.experiences.seals import seal_of
from memory_store.experiences.standings import CORRECT, standing_corrected
from memory_store.experiences.tables import (
    experience_links,
    experience_terms,
    experience_vectors,
    experiences,
)
from memory_store.experiences.values import Relation, Superseded
from memory_store.statement import Driver, Statement


def _inserted(table: Table) -> Statement:
    return Statement(insert(table).values({c.name: bindparam(c.name) for c in table.columns}))


_PUT = _inserted(experiences)
_PUT_TERMS = _inserted(experience_terms)
_PUT_VECTOR = _inserted(experience_vectors)
_PUT_LINK = _inserted(experience_links)


@dataclass(slots=True, kw_only=True)
class Batch:
    """What one write has decided, to be written at its end."""

    head: Head
    known: Met
    items: Counter[tuple[NamespaceId, TrustLane]] = field(default_factory=Counter)
    sizes: Counter[tuple[NamespaceId, TrustLane]] = field(default_factory=Counter)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _terms: list[dict[str, Any]] = field(default_factory=list)
    _vectors: list[dict[str, Any]] = field(default_factory=list)
    _links: list[dict[str, Any]] = field(default_factory=list)
    _superseded: list[dict[str, Any]] = field(default_factory=list)

    def take(self, draft: ReadyDraft, *, number: int, salt: bytes) -> None:
        """Log a draft under its number."""
        signature = sign(claim_of(draft.experience), key=self.head.secret)
        experience = replace(draft.experience, number=number, signature=signature)
        if experience.namespace not in self.known.spaces:
            raise NamespaceNotFoundError
        entry = self.head.log(
            LogEvent.WRITTEN,
            experience_id=experience.experience_id,
            experience_number=number,
            namespace=experience.namespace,
            standing=experience.standing,
            at_ms=experience.learned_at_ms,
            digest=digest_of(experience, secret=self.head.secret, salt=salt),
        )
        content = None if draft.is_blob else draft.content
        row = columns_of(experience, traits=draft.traits, salt=salt, content=content)
        self._rows.append({**row, "entry_number": entry.number, "entry_hash": entry.hash})
        self._index(draft, number)
        self._derive(experience, brought_back=draft.brought_back)
        if experience.supersedes is not None:
            self._correct(experience, experience.supersedes, draft)
        self.known.add(row_of(experience, entry.number), is_new=True)
        if draft.superseded is not None:
            self._mark_superseded(experience, draft.superseded)
        self.items[experience.namespace, experience.lane] += 1
        self.sizes[experience.namespace, experience.lane] += experience.size_bytes

    def _index(self, draft: ReadyDraft, number: int) -> None:
        seal = seal_of(
            secret=self.head.secret,
            number=number,
            terms=draft.terms,
            vector=draft.vector,
            traits=draft.traits,
            tokens=draft.experience.tokens,
        )
        words = {"number": number, "namespace": draft.experience.namespace, "terms": draft.terms}
        self._terms.append({**words, "seal": seal})
        if draft.vector is not None:
            axes = len(draft.vector) // 2
            self._vectors.append({"number": number, "axes": axes, "vector": draft.vector})

    def _derive(self, experience: Experience, *, brought_back: bool) -> None:
        """Tie an experience to what it was made of."""
        for source_id in experience.provenance.derived_from:
            source = self.known.find(source_id)
            if source is None and brought_back:
                continue
            source = source or self.known.get(source_id)
            # Or what was withdrawn would come back in the words of another.
            is_back = experience.standing is not Standing.REVOKED
            if source.standing is Standing.REVOKED and is_back:
                raise ExperienceRevokedError
            self._tie(experience, source, Relation.DERIVED_FROM)

    def _correct(
        self, experience: Experience, corrected_id: ExperienceId, draft: ReadyDraft
    ) -> None:
        """Tie a correction to what it corrects, and let it take effect."""
        corrected = self.known.find(corrected_id, experience.namespace)
        if corrected is None and draft.brought_back:
            return
        corrected = corrected or self.known.get(corrected_id, experience.namespace)
        self._tie(experience, corrected, Relation.SUPERSEDES)
        # What nobody vouches for yet corrects nothing; it does when it is promoted.
        if not draft.takes_effect:
            return
        if corrected.superseded_by is not None:
            raise ExperienceSupersededError
        self._supersede(corrected, experience)

    def _tie(self, experience: Experience, to: KnownRow, relation: Relation) -> None:
        ends = {"source": experience.number, "target": to.number}
        self._links.append({**ends, "relation": relation.value})

    def _supersede(self, corrected: KnownRow, by: Experience) -> None:
        self._superseded.append(
            {
                "of_number": corrected.number,
                "by": by.experience_id,
                "at_ms": by.learned_at_ms,
                "from_ms": by.valid_from_ms,
                "standing": standing_corrected(corrected.standing).value,
            }
        )
        self.known.add(replace(corrected, superseded_by=by.experience_id), is_new=False)
        self.head.log(
            LogEvent.MARKED,
            experience_id=corrected.experience_id,
            experience_number=corrected.number,
            namespace=corrected.namespace,
            standing=standing_corrected(corrected.standing),
            at_ms=by.learned_at_ms,
            by=by.provenance.writer,
            why=f"corrected by {by.experience_id}",
        )

    def _mark_superseded(self, experience: Experience, superseded: Superseded) -> None:
        standing = standing_corrected(experience.standing)
        self._superseded.append(
            {
                "of_number": experience.number,
                "by": superseded.by,
                "at_ms": superseded.at_ms,
                "from_ms": superseded.from_ms,
                "standing": standing.value,
            }
        )
        row = self.known.get(experience.experience_id)
        self.known.add(replace(row, superseded_by=superseded.by), is_new=True)
        self.head.log(
            LogEvent.MARKED,
            experience_id=experience.experience_id,
            experience_number=experience.number,
            namespace=experience.namespace,
            standing=standing,
            at_ms=experience.learned_at_ms,
            by=experience.provenance.writer,
            why=f"corrected by {superseded.by}",
        )

    def write(self, driver: Driver) -> None:
        """Write all of it."""
        _PUT.run_each(driver, self._rows)
        _PUT_TERMS.run_each(driver, self._terms)
        _PUT_VECTOR.run_each(driver, self._vectors)
        _PUT_LINK.run_each(driver, self._links)
        CORRECT.run_each(driver, self._superseded)
        self.head.write(driver)

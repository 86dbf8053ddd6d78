"""One experience compared with what was logged of it, and with what others say of it."""

from collections.abc import Iterator

from governor.experience.chain import LogEntry, digest_of
from governor.experience.kinds import Standing
from governor.experience.signing import claim_of, holds
from memory_store.errors import ExperienceCorruptError
from memory_store.experiences.browsing import intact
from memory_store.experiences.check_pages import CheckPage, Whole
from memory_store.experiences.heads import Head
from memory_store.experiences.seals import seal_of
from memory_store.experiences.values import Relation

CONTENT = "its content is missing or not what was written"


def wrongs_of(one: Whole, entry: LogEntry, page: CheckPage) -> Iterator[str]:
    """Yield what does not add up in a row that an entry says was written."""
    if page.head is None:
        yield "the tenant has no key" if not page.is_head_damaged else "the key cannot be read"
    else:
        yield from _against_log(one, entry, page.head)
        yield from _found_by(one, page.head)
    if one.kept.experience.number in page.unfound:
        yield "its words are not in the index of words; rebuild that"
    if not one.has_space:
        yield "its namespace is not there"
    yield from _in_content(one)
    yield from _in_ties(one, page)
    yield from _in_correction(one, page)


def _against_log(one: Whole, entry: LogEntry, head: Head) -> Iterator[str]:
    kept, stated = one.kept, one.kept.stated
    if (kept.entry_number, kept.entry_hash) != (entry.number, entry.hash):
        yield "it names another entry of the log"
    if digest_of(stated, secret=head.secret, salt=kept.salt) != entry.digest:
        yield "it is not what was logged"
    if not holds(claim_of(stated), stated.signature, key=head.secret):
        yield "its signature does not hold, so its lane is not proven"


def _found_by(one: Whole, head: Head) -> Iterator[str]:
    experience = one.kept.experience
    if one.words is None:
        yield "its words are missing, so it is not found by them"
        return
    if one.words.namespace != experience.namespace:
        yield "its words are in another namespace; rebuild the indexes"
    seal = seal_of(
        secret=head.secret,
        number=experience.number,
        terms=one.words.terms,
        vector=one.vector,
        traits=one.kept.traits,
        tokens=experience.tokens,
    )
    if seal != one.seal:
        yield "what it is found by, its words, vector, traits or tokens, is not what was written"


def _in_content(one: Whole) -> Iterator[str]:
    experience = one.kept.experience
    if one.content is None:
        if one.blob is None:
            yield CONTENT
        elif one.blob_bytes != experience.size_bytes:
            yield "its content is said to be of another size"
        return
    try:
        intact(one.content, experience.address)
    except ExperienceCorruptError:
        yield CONTENT


def _in_ties(one: Whole, page: CheckPage) -> Iterator[str]:
    """Yield what is wrong with the ties along which withdrawals go."""
    experience = one.kept.stated
    sources = experience.provenance.derived_from
    ties = page.ties.get(experience.number, frozenset())
    for source in dict.fromkeys(sources):
        there = page.named.get(source)
        derived = Relation.DERIVED_FROM.value
        # What came back after it under that id is another.
        is_older = there is not None and there.number < experience.number
        if there is not None and is_older and (derived, there.number, source) not in ties:
            yield f"it is not tied to {source}, which it was made of; rebuild the indexes"
    for relation, _, target in sorted(ties):
        if relation == Relation.DERIVED_FROM.value and target not in sources:
            yield f"it is tied to {target}, which it was not made of"
    corrected = experience.supersedes
    there = None if corrected is None else page.named.get(corrected)
    if there is None or there.namespace != experience.namespace:
        return
    if there.number > experience.number:
        return
    if (Relation.SUPERSEDES.value, there.number, corrected) not in ties:
        yield f"it is not tied to {corrected}, which it corrects; rebuild the indexes"


def _in_correction(one: Whole, page: CheckPage) -> Iterator[str]:
    """Yield what is wrong with what is said to supersede it; that may be gone by now."""
    experience = one.kept.experience
    by, from_ms = experience.superseded_by, one.superseded_from_ms
    if by is None:
        if experience.standing is Standing.SUPERSEDED:
            yield "it is superseded, and nothing says by what"
        if (experience.superseded_at_ms, from_ms) != (None, None):
            yield "it says since when it is superseded, and not by what"
        return
    if experience.standing is Standing.ACTIVE:
        yield f"it is active, and said to be superseded by {by}"
    correction = page.named.get(by)
    if correction is None:
        return
    if correction.supersedes is None or correction.namespace != experience.namespace:
        yield f"it is said to be superseded by {by}, which corrects nothing there"
    elif correction.valid_from_ms != from_ms:
        yield f"it is said to be superseded from another time on than {by} is true from"

"""What is done to experiences as a whole: kept for so long, looked through, carried elsewhere."""

from dataclasses import dataclass

from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.check_pages import Unfound
from memory_store.experiences.checking import ExperienceCheck
from memory_store.experiences.keeping import ExperienceRetention
from memory_store.experiences.namespaces import NamespaceBook
from memory_store.experiences.transfer import Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What an administrator and the house do with experiences, beside reading and writing them."""

    retention: ExperienceRetention
    check: ExperienceCheck
    transfer: Transfer


def upkeep_of(book: ExperienceBook, namespaces: NamespaceBook, *, unfound: Unfound) -> Upkeep:
    """Return the upkeep of what a book keeps."""
    withdrawal = book.withdrawal
    return Upkeep(
        retention=ExperienceRetention(withdrawal),
        check=ExperienceCheck(
            reader=withdrawal.reader,
            writer=withdrawal.writer,
            blobs=withdrawal.blobs,
            unfound=unfound,
        ),
        transfer=Transfer(
            book=book,
            namespaces=namespaces,
            reader=withdrawal.reader,
            blobs=withdrawal.blobs,
        ),
    )

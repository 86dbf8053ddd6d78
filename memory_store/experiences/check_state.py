"""How far the log of a tenant has been read, and what did not add up so far."""

from dataclasses import dataclass, field

from governor.experience.chain import LogEntry, LogEvent, breaks_in
from governor.experience.kinds import Standing
from governor.ids import ExperienceId, TenantId
from memory_store.experiences.check_pages import CheckPage, Damaged, Whole
from memory_store.experiences.values import Problem

PROBLEMS_MAX = 1_000


@dataclass(slots=True, kw_only=True)
class CheckState:
    """How far the log has been read, and what is to be asked again when it ends.

    `missing` were written and have no row; `written` stand elsewhere than they were written to;
    `marked` were marked since, to where.
    """

    tenant: TenantId
    number: int
    hash: str
    entries: int = 0
    experiences: int = 0
    missing: dict[int, ExperienceId] = field(default_factory=dict)
    written: dict[int, Standing | None] = field(default_factory=dict)
    marked: dict[int, Standing | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, what: str, experience_id: ExperienceId | None = None) -> None:
        """Take a problem, as long as there are not too many."""
        if len(self.problems) <= PROBLEMS_MAX:
            self.problems.append(Problem(what=what, experience_id=experience_id))

    def take(self, page: CheckPage) -> None:
        """Take the next entries of the log, with the rows that are there for them."""
        for entry in page.entries:
            self.entries += 1
            if isinstance(entry, Damaged):
                self.add(f"entry {entry.number} of the log cannot be read")
            else:
                for what in breaks_in((entry,), after_number=self.number, after_hash=self.hash):
                    self.add(what)
                self._follow(entry, page)
            self.number, self.hash = entry.number, entry.hash

    def _follow(self, entry: LogEntry, page: CheckPage) -> None:
        number = entry.experience_number
        found = page.found.get(number)
        match entry.event:
            case LogEvent.WRITTEN:
                self._written(entry, found, is_unreadable=number in page.unreadable)
            case LogEvent.MARKED:
                self.marked[number] = entry.standing
            case LogEvent.ERASED:
                self.missing.pop(number, None)
                self.written.pop(number, None)
                self.marked.pop(number, None)
                if found is not None:
                    self.add("it was erased and is there", entry.experience_id)

    def _written(self, entry: LogEntry, found: Whole | None, *, is_unreadable: bool) -> None:
        number = entry.experience_number
        if is_unreadable:
            self.add("its row cannot be read", entry.experience_id)
        elif found is None:
            self.missing[number] = entry.experience_id
        else:
            self.experiences += 1
            if found.kept.experience.standing is not entry.standing:
                self.written[number] = entry.standing

"""What the records of one domain add up to, bounded however many there are."""

from collections import Counter

from ebpf.probe.layout import Counted, Kind, Record

_PEERS_MAX = 64
_PLACES_TOLD_MAX = 8


class Watched:
    """What was heard of one domain."""

    def __init__(self) -> None:
        """Start with nothing heard."""
        self.peers: Counter[str] = Counter()
        self.programs: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()
        self.victims: list[str] = []
        self.processes: dict[int, int | None] = {}

    def hear(self, record: Record) -> None:
        """Take note of one event."""
        match record.kind:
            case Kind.CONNECT | Kind.SEND:
                _note(self.peers, f"{record.peer} ({record.command})")
            case Kind.EXEC:
                _note(self.programs, record.text)
                self._join(record.pid, record.detail)
            case Kind.FORK:
                self._join(record.detail, record.pid)
            case Kind.OPEN:
                _note(self.opened, record.text)
            case Kind.VICTIM:
                if len(self.victims) < _PLACES_TOLD_MAX:
                    self.victims.append(f"{record.command} ({record.pid})")
            case Kind.EXIT:
                pass

    def _join(self, pid: int, parent: int) -> None:
        """Remember who a process came from; who is no member is nobody's concern."""
        if len(self.processes) < _PEERS_MAX:
            self.processes.setdefault(pid, parent if parent in self.processes else None)

    def notes(self, counted: Counted) -> tuple[str, ...]:
        """Return what is worth telling, with what the kernel counted and what was not heard."""
        found = []
        if counted.refused is not None:
            found.append(
                f"refused {_number(counted.refused_packets, 'packet', 'packets')}, the first to "
                f"{counted.refused}"
            )
        if self.peers:
            found.append(f"connected to {_listed(self.peers, counted.connections)}")
        did = []
        if counted.executions:
            did.append(f"ran {_number(counted.executions, 'program', 'programs')}")
        if counted.opens:
            did.append(f"opened {_number(counted.opens, 'file', 'files')} for writing")
        if did:
            found.append(", ".join(did))
        if self.victims:
            found.append(f"the kernel killed {', '.join(self.victims)} for want of memory")
        if counted.lost:
            lost = _number(counted.lost, "event was", "events were")
            found.append(f"{lost} lost: the ring was full")
        if counted.untold:
            untold = _number(counted.untold, "event", "events")
            found.append(f"{untold} more than are told of one call")
        return tuple(found)


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _note(seen: Counter[str], what: str) -> None:
    if what in seen or len(seen) < _PEERS_MAX:
        seen[what] += 1


def _listed(seen: Counter[str], total: int) -> str:
    """Return the first few with how often each was, and how many the rest were."""
    first = list(seen.items())[:_PLACES_TOLD_MAX]
    words = [f"{what} x{count}" if count > 1 else what for what, count in first]
    rest = total - sum(count for _, count in first)
    return ", ".join([*words, f"{rest} more"] if rest > 0 else words)

"""What a tool can do to information: labels, given by an operator or told from its description.

The inference is for a first configuration and errs on the careful side: a tool of which nothing
can be told acts, and what it answers is not to be trusted. What a tool says of itself can make it
more suspicious than its name does, and never less where its name says that it acts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from governor.flow.lexicon import (
    ACTING,
    ADDRESS_NAMES,
    COMMAND_NAMES,
    CONTENT_NAMES,
    FOREIGN,
    MANNER_NAMES,
    MOMENT_NAMES,
    OBJECTS,
    OWN,
    OWN_OF_ONE,
    PREPOSITIONS,
    PRIVATE,
    READING,
    URL_NAMES,
    parts_of,
    stem,
    stems,
)


class Label(StrEnum):
    """What a tool can do to information."""

    READS_PRIVATE = "reads_private"
    SEES_UNTRUSTED = "sees_untrusted"
    CAN_SEND_OUT = "can_send_out"
    CHANGES = "changes"


class Role(StrEnum):
    """What an argument is for."""

    TARGET = "target"
    CONTENT = "content"
    HANDLE = "handle"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """What a tool says of itself; a hint that it does not give is None.

    `parameters` are their names, each with whether it is free text, as opposed to a number, a
    flag or one of a few given words.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, bool] = field(default_factory=dict)
    is_read_only: bool | None = None
    is_open_world: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """A tool's labels, each with why it has it, and what is needed to judge its calls.

    `wishes` are the stems by which people ask for what it changes, `objects` those of what it
    does that to; `roles` say what each of its arguments is for.
    """

    labels: frozenset[Label]
    why: Mapping[Label, str] = field(default_factory=dict)
    wishes: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    roles: Mapping[str, Role] = field(default_factory=dict)

    @property
    def acts(self) -> bool:
        """Tell whether a call can do something that the user did not want."""
        return Label.CAN_SEND_OUT in self.labels or Label.CHANGES in self.labels


_FOREIGN, _OWN, _OWN_OF_ONE, _PRIVATE = map(stems, (FOREIGN, OWN, OWN_OF_ONE, PRIVATE))
_CONTENT, _PLAIN = stems(CONTENT_NAMES), stems(MOMENT_NAMES | MANNER_NAMES)
_ADDRESS, _URL, _COMMAND = stems(ADDRESS_NAMES), stems(URL_NAMES), stems(COMMAND_NAMES)
_WISHES = {verb: stems(words) | {stem(verb)} for verb, words in ACTING.items()}
_OBJECTS = tuple(map(stems, OBJECTS))
_HANDLES = frozenset({"id", "ids", "uuid", "key", "handle", "ref", "cursor", "path"})


def traits_of(facts: ToolFacts) -> Traits:
    """Return what can be told of a tool from its name, description, parameters and hints."""
    words = parts_of(facts.name)
    verb = next((word for word in words if word in READING or word in ACTING), None)
    nouns = _nouns(words, verb)
    roles = {name: role_of(name, is_free=free) for name, free in facts.parameters.items()}
    why: dict[Label, str] = {}
    names = {stem(part) for name in facts.parameters for part in parts_of(name)}
    is_running = any(is_command(name) for name in facts.parameters)
    if is_running:
        why[Label.CAN_SEND_OUT] = "it runs what it is given"
    acting = _why_it_acts(facts, verb)
    if acting is not None:
        why[Label.CHANGES] = acting
        if any(role is Role.TARGET for role in roles.values()):
            why.setdefault(Label.CAN_SEND_OUT, f"{acting}, for whom or where an argument says")
    elif names & _URL:
        why.setdefault(Label.CAN_SEND_OUT, "the address that it reads can carry something out")
    if is_running or names & _URL:
        untrusted: str | None = "it brings back whatever it is pointed at"
    else:
        untrusted = None if acting is not None else _why_untrusted(facts, nouns)
    if untrusted is not None:
        why[Label.SEES_UNTRUSTED] = untrusted
    private = (nouns or stems(frozenset(parts_of(facts.description)))) & _PRIVATE
    if acting is None and private:
        why[Label.READS_PRIVATE] = f"it reads what is the user's own: {min(private)}"
    elif is_running:
        why[Label.READS_PRIVATE] = "it runs what it is given"
    wishes = _WISHES.get(verb or "", frozenset())
    return Traits(
        labels=frozenset(why), why=why, wishes=wishes, objects=_widened(nouns), roles=roles
    )


def _nouns(words: tuple[str, ...], verb: str | None) -> frozenset[str]:
    """Return what the verb is done to: what follows it, up to a preposition."""
    after = words[words.index(verb) + 1 :] if verb is not None else words
    kept: list[str] = []
    for word in after:
        if word in PREPOSITIONS and kept:
            break
        kept.append(stem(word))
    return frozenset(kept)


def _widened(nouns: frozenset[str]) -> frozenset[str]:
    return nouns.union(*(group for group in _OBJECTS if nouns & group))


def _why_it_acts(facts: ToolFacts, verb: str | None) -> str | None:
    if verb in ACTING:
        return f"its name says {verb}"
    if verb in READING and facts.is_read_only is not False:
        return None
    if verb is None and facts.is_read_only is True:
        return None
    if facts.is_read_only is False:
        return "it calls itself not read-only"
    return "nothing says that it only reads"


def _why_untrusted(facts: ToolFacts, nouns: frozenset[str]) -> str | None:
    """Return why others may have written what a tool reads; one that acts answers for itself."""
    foreign = nouns & _FOREIGN
    if not facts.parameters:
        # Whose else, where nobody is named.
        own, foreign = nouns & (_OWN | _OWN_OF_ONE), foreign - _OWN_OF_ONE
    else:
        own = nouns & _OWN
    if own and not foreign:
        return None
    if foreign:
        return f"others write there: {min(foreign)}"
    if facts.is_open_world is False:
        return None
    return "nothing says that only the user writes there"


def is_command(name: str) -> bool:
    """Tell whether an argument of that name is run: "code" is, "country_code" is not."""
    return stem(name.lower()) in _COMMAND


def role_of(name: str, *, is_free: bool = True) -> Role:
    """Return what an argument of that name is for."""
    parts = parts_of(name)
    stemmed = {stem(part) for part in parts}
    if not is_free:
        return Role.HANDLE if parts and parts[-1] in _HANDLES else Role.PLAIN
    if stemmed & _ADDRESS or is_command(name):
        return Role.TARGET
    if parts and parts[-1] in _HANDLES:
        return Role.HANDLE
    if stemmed & _PLAIN:
        return Role.PLAIN
    if stemmed & _CONTENT:
        return Role.CONTENT
    return Role.TARGET

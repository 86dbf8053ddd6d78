"""Whether the user's own words ask for a call: what it does, and to whom.

An address counts as named only whole, and a name only with all of its words. So a text that an
attacker wrote cannot borrow half of what the user said.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from governor.flow.labels import Label, Role, Traits, role_of
from governor.flow.lexicon import BEFORE_VERBS, TWO_FACED, stem, stems, tokens_of

CHARS_MAX = 16_384
_VALUES_MAX = 256
_DEPTH_MAX = 8
_TOO_LONG = "…" * (CHARS_MAX + 1)
# Shorter values stand in any text by chance.
_SAID_CHARS_MIN = 4
_QUOTED_CHARS_MIN = 8
# An e-mail address, a URL, a host's name with or without its path, an account's number.
_ADDRESS = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|[a-z][a-z0-9+.-]*://[^\s<>\"'`)\]}]+"
    r"|(?<![\w.@/-])(?:[a-z0-9-]+\.)+[a-z]{2,24}(?![\w.-]*@)(?:[/?#:][^\s<>\"'`)\]}]*)?"
    r"|\b[a-z]{2}\d{2}[a-z0-9]{8,30}\b"
    r"|\b0x[0-9a-f]{16,}\b"
)
# Without any of these a word is no address.
_TRACE = re.compile(r"@|://|[a-z0-9]\.[a-z]|\d[a-z0-9]{8}")
_CODE_CHARS_MIN = 12
_CLAUSE_END = re.compile(r"[.!?;:,]\s|\s[-\u2013]\s|\s\(")
_TWO_FACED = stems(TWO_FACED)
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://")
_AFTER = ".,;:!?/"
_HOST_END = re.compile(r"[/?#:]")
# What ends like a host's name and is a file of the user's own.
_FILE = re.compile(
    r"^[^/@]+\.(?:docx?|xlsx?|pptx?|pdf|txt|md|csv|json|ya?ml|toml|py|js|ts|png|jpe?g)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A text that is trusted, prepared to be looked things up in.

    `addresses` are those that it names; `stems` and `tokens` are of all its words, `wishes` of
    those that can be meant as verbs.
    """

    text: str
    tokens: frozenset[str]
    stems: frozenset[str]
    addresses: frozenset[str]
    wishes: frozenset[str]

    def name(self, value: str) -> bool:
        """Tell whether the text names `value`, a person, a place or an address."""
        plain = _plain(value)
        if not plain:
            return True
        addresses = _addresses(plain)
        if addresses:
            return all(self.has_address(address) for address in addresses)
        named = [token for token in tokens_of(plain) if not token.isdigit()] or tokens_of(plain)
        return bool(named) and all(
            token in self.tokens or stem(token) in self.stems for token in named
        )

    def says(self, value: str) -> bool:
        """Tell whether the text has `value` in it, word for word."""
        plain = _plain(value)
        return len(plain) >= _QUOTED_CHARS_MIN and plain in self.text

    def holds(self, value: str) -> bool:
        """Tell whether the text has all words and numbers of `value`, wherever they stand."""
        tokens = tokens_of(value)
        return bool(tokens) and self.tokens.issuperset(tokens)

    def has_address(self, address: str) -> bool:
        """Tell whether the text names this address, or the host that it is of."""
        if address in self.addresses:
            return True
        return "@" not in address and _HOST_END.split(address, maxsplit=1)[0] in self.addresses


def words_of(*texts: str) -> Words:
    """Return texts as words to look things up in; what is beyond the bound is left out."""
    plain = _plain("\n".join(texts)[:CHARS_MAX])
    tokens = frozenset(tokens_of(plain))
    return Words(
        text=plain,
        tokens=tokens,
        stems=frozenset(map(stem, tokens)),
        addresses=frozenset(_addresses(plain)),
        wishes=frozenset(_wishes_in(plain)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """Addresses that the user did not say, and that something the user trusts has.

    `own` are those of the user's own records, such as an address book. `pointed` come from what
    the user pointed at by name, as in "her address is on www.acme.test": such a source is read
    for an address, and for nothing else.
    """

    own: frozenset[str] = frozenset()
    pointed: frozenset[str] = frozenset()


NOBODY = Vouched()


def addresses_in(text: str) -> frozenset[str]:
    """Return the addresses that a text names, as far as it is looked through."""
    return frozenset(_addresses(_plain(text[:CHARS_MAX])))


def points_at(asked: Words, arguments: Mapping[str, object]) -> bool:
    """Tell whether the user said what a call looks for: a name, an address, a phrase."""
    texts = (text for _, _, text in _texts(arguments, {}))
    return any(asked.says(text) or _is_address_of(text, asked) for text in texts)


def objection(
    traits: Traits, arguments: Mapping[str, object], *, asked: Words, vouched: Vouched = NOBODY
) -> str | None:
    """Return what in a call the user did not ask for, None if all of it was."""
    changes = Label.CHANGES in traits.labels
    if changes and not traits.wishes & asked.wishes:
        return "nothing in the user's words asks for this"
    texts = list(_texts(arguments, traits.roles))
    content = [text for _, role, text in texts if role is Role.CONTENT]
    targets = [(name, text) for name, role, text in texts if role is Role.TARGET]
    # Nothing leaks to whoever gets to read what the user wrote.
    is_quoted = bool(content) and all(asked.says(text) for text in content)
    is_described = any(map(asked.says, content)) or any(_names(asked, to) for _, to in targets)
    trusted = asked.addresses | vouched.own | (vouched.pointed if is_described else frozenset())
    for name, to in targets:
        if _names(asked, to) or _is_known(to, trusted):
            continue
        if not is_quoted or _has_address(to):
            return f"the user did not name {name}"
    for name, role, text in texts:
        foreign = _foreign_in(text, asked, trusted) if role is Role.CONTENT else None
        if foreign is not None:
            return f"{name} carries an address that the user did not name: {foreign:.60}"
    if not changes or targets or traits.objects & asked.stems:
        return None
    said = [text for _, role, text in texts if role is Role.PLAIN and len(text) >= _SAID_CHARS_MIN]
    if any(map(asked.holds, said)):
        return None
    return "nothing in the user's words is about what this would change"


def _names(asked: Words, text: str) -> bool:
    return len(text) <= CHARS_MAX and asked.name(text)


def _is_known(text: str, trusted: frozenset[str]) -> bool:
    """Tell whether a text is one address, or several, all of which are trusted."""
    addresses = addresses_in(text) if len(text) <= CHARS_MAX else frozenset()
    return bool(addresses) and addresses <= trusted


def _is_address_of(text: str, asked: Words) -> bool:
    addresses = addresses_in(text) if len(text) <= CHARS_MAX else frozenset()
    return bool(addresses) and all(map(asked.has_address, addresses))


def _foreign_in(text: str, asked: Words, trusted: frozenset[str]) -> str | None:
    if len(text) > CHARS_MAX:
        return "longer than can be looked through"
    for address in _addresses(_plain(text)):
        if address not in trusted and not asked.has_address(address):
            return address
    return None


def _wishes_in(plain: str) -> Iterator[str]:
    """Yield the stems of what can be verbs; a word that is a noun as often must stand like one."""
    for clause in _CLAUSE_END.split(plain):
        before = None
        for token in tokens_of(clause):
            base = stem(token)
            if base not in _TWO_FACED or before is None or before in BEFORE_VERBS:
                yield base
            before = token


def _has_address(text: str) -> bool:
    return len(text) > CHARS_MAX or bool(_addresses(_plain(text)))


def _addresses(plain: str) -> list[str]:
    """Return the addresses in a text, without what stands around them."""
    # Word by word, and most words at a glance: the pattern alone takes many times as long.
    words = [
        word
        for word in dict.fromkeys(plain.split(" "))
        if "@" in word or "." in word[1:-1] or len(word) >= _CODE_CHARS_MIN
    ]
    found = [
        _SCHEME.sub("", each.rstrip(_AFTER))
        for word in words
        if _TRACE.search(word)
        for each in _ADDRESS.findall(word)
    ]
    return [each for each in found if each and not _FILE.match(each)]


def _plain(text: str) -> str:
    """Return a text in small letters with one space between its words."""
    return _plain_kept(text) if len(text) <= CHARS_MAX else _made_plain(text)


def _made_plain(text: str) -> str:
    if not text.isascii():
        text = normalize("NFKC", text)
    return " ".join(text.split()).lower()


# Each text of a call is asked for several times in a row.
_plain_kept = lru_cache(maxsize=32)(_made_plain)


def _texts(
    arguments: Mapping[str, object], roles: Mapping[str, Role]
) -> Iterator[tuple[str, Role, str]]:
    """Yield the texts inside the arguments, each with what it is for.

    What is too deep or too much stands as a text that nobody can have named.
    """
    left: list[tuple[str, Role, object, int]] = [
        (name, roles.get(name, Role.TARGET), value, 0) for name, value in arguments.items()
    ]
    found = 0
    while left:
        name, role, value, depth = left.pop()
        found += 1
        if found > _VALUES_MAX or depth > _DEPTH_MAX:
            yield name, Role.TARGET, _TOO_LONG
            return
        if isinstance(value, str):
            yield name, role, value
        elif isinstance(value, Mapping):
            # What stands inside of a text's place goes out like the text.
            left.extend(
                (str(key), role if role is Role.CONTENT else role_of(str(key)), inner, depth + 1)
                for key, inner in value.items()
            )
        elif isinstance(value, list | tuple):
            left.extend((name, role, inner, depth + 1) for inner in value)

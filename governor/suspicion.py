"""What in a tool's description looks as if it were meant for a model, as advice to a person.

It finds what is written as such texts usually are. It is no defence: who wants to hide it from a
pattern can. What holds is that nothing changes after it was approved.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence

_TEXT_CHARS_MAX = 65_536
_LONG_CHARS = 4_000
_NAME_CHARS_MIN = 5
_BEFORE_CHARS = 20
_AFTER_CHARS = 40
_QUOTE_CHARS_MAX = 120

_HIDDEN = re.compile(
    "[\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SIGNS = (
    (
        "it gives the model instructions",
        re.compile(
            r"[<\[]\s*(important|system|instructions?|secret|global)|\b(override|hijack|redirect)\b"
            r"|\buse this (tool|function)\b|\brather than (the )?others?\b"
            r"|\b(ignore|disregard|forget)\b.{0,40}\b(previous|prior|above|other|all)\b"
            r"|\byou (must|should always|are required to)\b"
            r"|\b(system|developer) prompt\b|\b(before|after) (using|us(e|ing)|call(ing)?|"
            r"execut(e|ing)|you (use|call)|any)\b.{0,60}\b(tool|must|first|read|run|operation)\b"
            r"|\balways (call|use|invoke|run|include|prefer)\b"
            r"|\binstead of\b.{0,40}\btools?\b|\b(highest|top) priority\b"
            r"|\bimportant\s*[:!]|\bmandatory\b",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    (
        "it asks the model to keep something from the user",
        re.compile(
            r"\b(do not|don't|never|without)\b.{0,30}\b(tell|mention|inform|notify|show|reveal|"
            r"telling|mentioning|informing|notifying)\b|\b(silently|secretly|covertly)\b"
            r"|\bhide (this|it|that)\b",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    (
        "it speaks of credentials or of files that hold them",
        re.compile(
            r"\.ssh\b|\bid_(rsa|ed25519)\b|\.env\b|/etc/(passwd|shadow)|\bmcp\.json\b|\.aws\b"
            r"|\b(api|secret|private|access)[ _-]?keys?\b|\bpasswords?\b|\bcredentials?\b"
            r"|\benvironment variables?\b",
            re.IGNORECASE,
        ),
    ),
    (
        "it speaks of sending something elsewhere",
        re.compile(
            r"\b(send|post|upload|forward|transmit|exfiltrate|leak|bcc|copy)\b.{0,60}"
            r"(https?://|\bto (an?|the|this|my)? ?(server|endpoint|webhook|url|address|attacker)"
            r"|[\w.]+@[\w-]+\.\w+)|\bsidenote\b|\bbase64\b",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
)


def suspicions(
    definition: Mapping[str, object], *, own_names: Collection[str], other_names: Collection[str]
) -> tuple[str, ...]:
    """Return what a person should look at in a tool's definition, in sentences; often nothing.

    `own_names` are the tools of its upstream, itself among them; `other_names` those of others.
    """
    text = json.dumps(definition, ensure_ascii=False, default=str)[:_TEXT_CHARS_MAX]
    fields = _strings(definition)
    words = "\n".join(fields)[:_TEXT_CHARS_MAX]
    found = []
    hidden = sorted({f"U+{ord(sign):04X}" for sign in _HIDDEN.findall(words)})
    if hidden:
        found.append(f"it has characters that nobody sees: {', '.join(hidden[:8])}")
    if _CONTROL.search(words):
        found.append("it has control characters, which can hide text in a terminal")
    for says, sign in _SIGNS:
        match = sign.search(words)
        if match is not None:
            found.append(f'{says}: "{_quote(words, match, fields)}"')
    named = sorted(name for name in other_names if _names(text, name) and name not in own_names)
    if named:
        found.append(f"it names tools of other upstreams: {', '.join(named[:8])}")
    if len(words) > _LONG_CHARS:
        found.append(f"it is {len(words)} characters long")
    return tuple(found)


def _names(text: str, name: str) -> bool:
    # A short or everyday name stands in any text.
    if len(name) < _NAME_CHARS_MIN or not ("_" in name or "-" in name or not name.islower()):
        return False
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _strings(value: object, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth > 16:  # noqa: PLR2004 - deeper than any schema that a person would read
        return []
    if isinstance(value, Mapping):
        return [text for pair in value.items() for one in pair for text in _strings(one, depth + 1)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _strings(one, depth + 1)]
    return []


def _quote(text: str, match: re.Match[str], fields: Sequence[str]) -> str:
    """Return the match with some words around it, of the one field that it begins in."""
    begins, ends = _field_of(match.start(), fields)
    ends = min(ends, len(text))
    start = max(begins, match.start() - _BEFORE_CHARS)
    stop = min(ends, match.end() + _AFTER_CHARS, start + _QUOTE_CHARS_MAX)
    if start > begins and not text[start - 1].isspace():
        spaces = (at for at in range(start, match.start()) if text[at].isspace())
        start = next(spaces, match.start())
    if stop < ends and not text[stop].isspace():
        # A word that is longer than all that is shown has to be cut.
        spaces = (at for at in range(stop - 1, start, -1) if text[at].isspace())
        stop = next(spaces, stop)
    shown = " ".join(_HIDDEN.sub("", _CONTROL.sub("", text[start:stop])).split())
    before = "…" if text[begins:start].strip() else ""
    after = "…" if text[stop:ends].strip() else ""
    return f"{before}{shown}{after}"


def _field_of(position: int, fields: Sequence[str]) -> tuple[int, int]:
    """Return where in the joined `fields` the one with `position` begins and ends."""
    begins = ends = 0
    for field in fields:
        ends = begins + len(field)
        if position <= ends:
            break
        begins = ends + 1
    return begins, ends

"""The English words from which a tool's label and a user's wish are told."""

import re

_SPLIT = re.compile(r"[^0-9A-Za-z]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TOKEN = re.compile(r"[^\W_]+", re.UNICODE)
_DOUBLED = re.compile(r"([bdgmnprt])\1$")
_STEM_CHARS_MIN = 3


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


READING = _set(
    "access analyze analyse ask browse calculate check compare compute count describe detect "
    "diff download estimate evaluate explain export fetch find get inspect list look lookup "
    "monitor navigate open peek predict preview query read recommend resolve retrieve review "
    "scan search see show status summarize summarise tail track translate validate verify view "
    "visit watch"
)
# The words by which people ask for what a tool's verb does; a verb always stands for itself.
ACTING = {
    "accept": "accept approve",
    "add": "add append include insert invite put",
    "append": "add append include insert put write",
    "approve": "accept approve",
    "assign": "assign give",
    "autofill": "autofill fill",
    "book": "book booking reservation reserve",
    "buy": "buy order purchase",
    "call": "call dial phone run",
    "cancel": "cancel drop remove",
    "change": "change edit modify set switch update",
    "clear": "clear delete empty erase remove",
    "close": "close resolve shut",
    "commit": "commit save",
    "copy": "copy duplicate",
    "create": "add book create generate make new open organize plan prepare put schedule set write",
    "delete": "clear delete erase remove",
    "deploy": "deploy launch release",
    "deposit": "deposit",
    "disable": "disable off",
    "dispatch": "dispatch send",
    "draft": "draft prepare write",
    "edit": "change correct edit fix modify update",
    "enable": "enable on",
    "execute": "execute perform run",
    "fill": "autofill fill",
    "forward": "forward send",
    "grant": "allow give grant",
    "import": "import load",
    "insert": "add insert put",
    "install": "install set",
    "invite": "add invite",
    "kill": "end kill stop",
    "launch": "launch open start",
    "lock": "lock",
    "make": "create make",
    "manage": "manage",
    "merge": "combine merge",
    "message": "message send tell write",
    "modify": "change edit modify update",
    "move": "move put transfer",
    "order": "buy order purchase",
    "pay": "pay settle transfer",
    "place": "place put",
    "play": "play",
    "post": "post publish reply send share tweet write",
    "publish": "post publish release",
    "push": "push upload",
    "put": "put save set store",
    "register": "register sign",
    "remove": "clear delete drop erase remove",
    "rename": "call name rename",
    "reply": "answer reply respond write",
    "reschedule": "change move postpone reschedule shift",
    "reserve": "book booking reservation reserve",
    "reset": "reset",
    "revoke": "remove revoke",
    "run": "execute perform run",
    "save": "keep save store",
    "schedule": "arrange book plan schedule set",
    "sell": "sell",
    "send": "dm email forward mail message notify pay post refund reply send share tell text "
    "transfer write",
    "set": "adjust change configure set turn update",
    "share": "give send share",
    "sign": "sign",
    "start": "begin launch start",
    "stop": "end stop",
    "submit": "file send submit",
    "trade": "buy sell trade",
    "transfer": "move pay send transfer wire",
    "tweet": "post tweet",
    "unblock": "allow unblock",
    "unlock": "open unlock",
    "update": "adjust change correct edit modify move refund set update",
    "upload": "put store upload",
    "withdraw": "withdraw",
    "write": "create put save write",
}
# What stands for a whole class of things in a tool's name and in what people say.
OBJECTS = (
    _set("appointment calendar event meeting reminder"),
    _set("attachment doc document file folder note page sheet"),
    _set("dm email letter mail message sms text"),
    _set("amount bill invoice money payment rent transaction transfer"),
    _set("channel group room team"),
    _set("account detail info information profile"),
    _set("colleague contact member participant person user"),
    _set("link page site url web webpage website"),
    _set("bug issue task ticket todo"),
)
# Where people who are not the user write.
FOREIGN = _set(
    "article attachment bio blog calendar chat comment content description detail discussion "
    "doc document email event feed file forum html inbox issue item log mail message news note "
    "page post product profile rating repo repository review rss site sms task thread ticket "
    "tweet transaction url web webpage website wiki"
)
# What the user keeps for itself, and figures that nobody can write words into. The names of
# channels and members are not among them: in a shared place others choose those.
OWN = _set(
    "balance clock contact currency date day exchange iban price quota setting time timezone "
    "weather"
)
OWN_OF_ONE = _set("user profile account information info detail")
PRIVATE = _set(
    "account address balance bank calendar card contact credential document email event file "
    "genetic health history iban inbox log mail medical message note order password patient "
    "payee payment personal private record reservation statement task transaction user"
)
PREPOSITIONS = _set("about at by for from in into of on per to using via with")

CONTENT_NAMES = _set(
    "body caption comment content data description html location markdown message name note "
    "place reason remark review subject summary text title venue"
)
MOMENT_NAMES = _set(
    "date datetime day duration end hour minute month recurrence start time timezone until when "
    "year"
)
MANNER_NAMES = _set(
    "color colour format kind language level mode order permission priority sort status style "
    "type unit"
)
ADDRESS_NAMES = _set(
    "address bcc cc destination domain email endpoint host href iban link recipient uri url webhook"
)
URL_NAMES = _set("domain endpoint host href link uri url webhook website")
COMMAND_NAMES = _set("argv cmd code command expression script shell sql")
# Nouns as often as verbs: "read the latest email" asks for none to be sent.
TWO_FACED = _set("book email file mail message order post text tweet")
# What stands before a word that is meant as a verb.
BEFORE_VERBS = _set("also and can could now or please should then to will you")


def parts_of(name: str) -> tuple[str, ...]:
    """Return the words of an identifier, in snake, kebab or camel case."""
    return tuple(part.lower() for part in _SPLIT.split(name) if part)


def tokens_of(text: str) -> list[str]:
    """Return the words and numbers of a text, in lower case."""
    return _TOKEN.findall(text.lower())


def stem(word: str) -> str:
    """Return what a word shares with its other forms, roughly: share, shares, shared, sharing."""
    for ending in ("ings", "ing", "ies", "ied", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_CHARS_MIN:
            base = word[: -len(ending)]
            return _DOUBLED.sub(r"\1", base) if ending[0] in "ie" else base.removesuffix("e")
    return word.removesuffix("e") if len(word) > _STEM_CHARS_MIN else word


def stems(words: str | frozenset[str]) -> frozenset[str]:
    """Return the stems of several words."""
    return frozenset(stem(word) for word in (words.split() if isinstance(words, str) else words))

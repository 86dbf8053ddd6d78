"""Upstreams as other programs list them: the `mcpServers` JSON, read into tables of ours."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

# The whole value is a variable of the environment, in the ways that programs write it.
_REFERENCE = re.compile(r"^\$(?:\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))$")
_PARTLY = re.compile(r"\$\{")
_UNSAFE = re.compile(r"[^A-Za-z0-9-]+")
_BARE = re.compile(r"^[A-Za-z0-9_-]+$")
_MEMBERS = ("mcpServers", "servers")
_REMOTE = {"http": "streamable", "streamable-http": "streamable", "streamableHttp": "streamable"}
_KNOWN = frozenset({"command", "args", "env", "cwd", "url", "headers", "type", "disabled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A server that was taken: the name it had, its table, and what is worth knowing."""

    listed_as: str
    name: str
    table: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A server that was not taken, and why."""

    listed_as: str
    why: str


@dataclass(slots=True)
class Imported:
    """What became of a list of servers."""

    taken: list[Taken] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


class NotAListError(ValueError):
    """There is no list of MCP servers in this document."""


def imported_of(document: object, *, names_taken: Collection[str]) -> Imported:
    """Return the servers of a document as tables; `names_taken` are no longer free.

    Raises:
        NotAListError: the document is no such list.
    """
    imported, used = Imported(), set(names_taken)
    for key, server in _servers(document).items():
        listed_as = key.encode(errors="replace").decode()
        try:
            name = _free_name(listed_as, used)
            taken = _taken(listed_as, name, server)
        except _LeftOutError as error:
            imported.left.append(Left(listed_as=listed_as, why=str(error)))
            continue
        used.add(name)
        imported.taken.append(taken)
    return imported


class _LeftOutError(Exception):
    """A server cannot be taken; the message says why."""


def _servers(document: object) -> Mapping[str, object]:
    if isinstance(document, Mapping):
        for member in _MEMBERS:
            if isinstance(document.get(member), Mapping):
                found: Mapping[str, object] = document[member]
                return found
        if isinstance(document.get("mcp"), Mapping):
            return _servers(document["mcp"])
    raise NotAListError('expected an object with "mcpServers": { NAME: { "command": … } }')


def _free_name(listed_as: str, used: Collection[str]) -> str:
    name = _UNSAFE.sub("-", listed_as).strip("-")
    if not name:
        raise _LeftOutError("its name has no letter or digit; rename it")
    if name in used:
        raise _LeftOutError(f"there is an upstream called {name!r} already")
    return name


def _taken(listed_as: str, name: str, server: object) -> Taken:
    if not isinstance(server, Mapping):
        raise _LeftOutError("it is no JSON object")
    if server.get("disabled") is True:
        raise _LeftOutError("it is disabled")
    notes = [f"{key!r} has no counterpart here" for key in server if key not in _KNOWN]
    if name != listed_as:
        notes.append(f"it is called {name!r} here")
    lines = ["[[upstream]]", f"name = {_quoted(name)}"]
    if "command" in server:
        lines.extend(_started(server, notes))
    elif "url" in server:
        lines.extend(_elsewhere(server, notes))
    else:
        raise _LeftOutError('it has neither "command" nor "url"')
    return Taken(listed_as=listed_as, name=name, table="\n".join(lines) + "\n", notes=tuple(notes))


def _started(server: Mapping[str, object], notes: list[str]) -> Iterator[str]:
    command = [_text(server["command"], "command"), *_texts(server.get("args", []), "args")]
    yield f"command = [{', '.join(map(_quoted, command))}]"
    plain, references = _divided(server.get("env", {}), "env")
    foreign = [name for name, variable in references.items() if name != variable]
    if foreign:
        name = foreign[0]
        raise _LeftOutError(
            f"env.{name} is the value of {references[name]}; export it as {name} and write "
            f'env_from = ["{name}"] in its table'
        )
    if plain:
        yield f"env = {_inline(plain)}"
        notes.append("values of env are in the file now; env_from takes them from the environment")
    if references:
        yield f"env_from = [{', '.join(map(_quoted, references))}]"
    if "cwd" in server:
        yield f"cwd = {_quoted(_text(server['cwd'], 'cwd'))}"


def _elsewhere(server: Mapping[str, object], notes: list[str]) -> Iterator[str]:
    url = _text(server["url"], "url")
    if not url.startswith(("http://", "https://")):
        raise _LeftOutError(f"url: expected http:// or https://, got {url!r:.80}")
    yield f"url = {_quoted(url)}"
    kind = server.get("type")
    if kind == "sse" or (kind is None and url.rstrip("/").endswith("/sse")):
        yield 'transport = "sse"'
    elif kind is not None and kind not in _REMOTE:
        raise _LeftOutError(f"its type is {kind!r:.40}, which is no transport of MCP")
    plain, references = _divided(server.get("headers", {}), "headers")
    if plain:
        yield f"headers = {_inline(plain)}"
        notes.append("headers are in the file now; headers_from takes them from the environment")
    if references:
        yield f"headers_from = {_inline(references)}"


def _divided(values: object, where: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the values that stand for themselves, and the variables that others stand for."""
    if not isinstance(values, Mapping):
        raise _LeftOutError(f"{where}: expected an object of strings")
    plain: dict[str, str] = {}
    references: dict[str, str] = {}
    for key, value in values.items():
        name = _text(key, where)
        text = _text(value, f"{where}.{name}")
        found = _REFERENCE.match(text)
        if found is not None:
            references[name] = found[1] or found[2]
        elif _PARTLY.search(text):
            raise _LeftOutError(f"{where}.{name}: only a whole value can come from a variable")
        else:
            plain[name] = text
    return plain, references


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _LeftOutError(f"{where}: expected a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _LeftOutError(f"{where}: holds half of a surrogate pair") from None
    return value


def _texts(values: object, where: str) -> list[str]:
    if not isinstance(values, list):
        raise _LeftOutError(f"{where}: expected a list of strings")
    return [_text(value, where) for value in values]


def _inline(values: Mapping[str, str]) -> str:
    pairs = (
        f"{key if _BARE.match(key) else _quoted(key)} = {_quoted(value)}"
        for key, value in values.items()
    )
    return f"{{ {', '.join(pairs)} }}"


def _quoted(text: str) -> str:
    # A JSON string is a TOML string but for one character that only TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

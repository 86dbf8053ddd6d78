"""The page of the admin API, and its OpenAPI document, from the application itself."""

import json
import re
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

from docs.tools.markdown import code, page, table
from runtime.admin import create_admin_app
from runtime.admin.parts import BODY_BYTES_MAX, AdminParts

_PREFIX = "/admin/v1/"
_EVERYWHERE = {"401", "403", "422", "503"}


def openapi_document() -> str:
    """Return the OpenAPI document, as `GET /admin/v1/openapi.json` answers it."""
    return json.dumps(_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def admin_page() -> str:
    """Return the page."""
    schema = _schema()
    groups: defaultdict[str, list[tuple[str, str, dict[str, Any]]]] = defaultdict(list)
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            groups[_group_of(path)].append((method.upper(), path, operation))
    parts = [_intro(schema)]
    parts.extend(_group(name, groups[name]) for name in sorted(groups))
    parts.append(_shapes(schema))
    return page("Admin API", "the application's own OpenAPI document", *parts)


def _schema() -> dict[str, Any]:
    parts = cast("AdminParts", SimpleNamespace(body_bytes_max=BODY_BYTES_MAX))
    return create_admin_app(parts).openapi()


def _intro(schema: dict[str, Any]) -> str:
    return (
        f"{schema['info']['description'].strip()}\n\n"
        "The whole document for programs, which the site has beside this page as `openapi.json`: "
        "`GET /admin/v1/openapi.json`. Every route takes `Authorization: Bearer` with an "
        "administrator's token. Lists are pages: `{items, next}`, and `?cursor=` takes `next`. "
        "What is changed with PUT has an `ETag`; send it back as `If-Match`. Errors are "
        "[problem documents](errors.md)."
    )


def _group_of(path: str) -> str:
    if not path.startswith(_PREFIX):
        return "health and metrics"
    return path.removeprefix(_PREFIX).split("/")[0]


def _group(name: str, operations: list[tuple[str, str, dict[str, Any]]]) -> str:
    rows = [
        (
            code(f"{method} {path}"),
            _first(operation),
            _parameters(operation),
            _body(operation),
            _answer(operation),
        )
        for method, path, operation in operations
    ]
    head = ("route", "what it does", "query", "body", "answers")
    return f"## {name}\n\n{table(head, rows)}"


def _first(operation: dict[str, Any]) -> str:
    text = operation.get("description") or operation.get("summary", "")
    return " ".join(text.split("\n\n")[0].split())


def _parameters(operation: dict[str, Any]) -> str:
    names = [
        code(parameter["name"])
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    ]
    return ", ".join(names)


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    return ", ".join(_named(media.get("schema", {})) for media in content.values())


def _answer(operation: dict[str, Any]) -> str:
    shown = []
    for status, response in operation["responses"].items():
        if status >= "400":
            continue
        named = [_named(media.get("schema", {})) for media in response.get("content", {}).values()]
        shown.append(" ".join(filter(None, (status, *named))))
    errors = sorted({status for status in operation["responses"] if status >= "400"} - _EVERYWHERE)
    return "; ".join(shown) + (f"; or {', '.join(errors)}" if errors else "")


def _named(schema: dict[str, Any]) -> str:
    """Return a link to the shape, or what kind of value it is."""
    several = next((schema[word] for word in ("anyOf", "oneOf", "allOf") if word in schema), None)
    extra = schema.get("additionalProperties")
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        named = f"[{name}](#{_anchor(name)})"
    elif several is not None:
        named = " or ".join(dict.fromkeys(map(_named, several)))
    elif schema.get("type") == "array":
        named = f"list of {_named(schema.get('items', {}))}"
    elif "enum" in schema or "const" in schema:
        values = schema.get("enum") or [schema["const"]]
        named = ", ".join(code(json.dumps(value)) for value in values)
    elif schema.get("type") == "object" and isinstance(extra, dict):
        named = f"object of {_named(extra)}"
    else:
        named = str(schema.get("type", ""))
    return named


def _anchor(name: str) -> str:
    return "shape-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _shapes(schema: dict[str, Any]) -> str:
    parts = ["## Shapes"]
    for name, shape in sorted(schema["components"]["schemas"].items()):
        text = " ".join(shape.get("description", "").split("\n\n")[0].split())
        required = set(shape.get("required", ()))
        rows = [
            (
                code(field),
                _named(inner),
                "yes" if field in required else "",
                " ".join(inner.get("description", "").split()),
            )
            for field, inner in shape.get("properties", {}).items()
        ]
        body = table(("field", "value", "always", "what it says"), rows) if rows else _named(shape)
        parts.append(
            f"### {name} {{ #{_anchor(name)} }}\n\n{text}\n\n{body}".replace("\n\n\n", "\n")
        )
    return "\n\n".join(parts)

"""The page of every table and key of `flyball.toml`, from the models that check the file."""

import inspect
import json
import tomllib
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from docs.tools.markdown import code, page, table
from docs.tools.source_words import comments_of
from docs.tools.template_words import words_of
from runtime.configuration.model import Config
from runtime.settings import Settings

_PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    Decimal: "decimal, in quotes",
    SecretStr: "text, secret",
}
_NONE = type(None)
_NO_WORDS = ""
_CHOICES_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """A table of the file: what it is called, how it is written, what checks it."""

    path: str
    is_list: bool
    model: type[BaseModel]

    @property
    def name(self) -> str:
        """Return how the table is written."""
        return f"[[{self.path}]]" if self.is_list else f"[{self.path}]"

    @property
    def anchor(self) -> str:
        """Return where it stands on the page."""
        return self.path.replace(".", "-").replace("_", "-")


def configuration_page() -> str:
    """Return the page."""
    words = _template_words()
    sections = list(_sections(Config, ""))
    parts = [_intro()]
    written: dict[type[BaseModel], _Section] = {}
    for section in sections:
        parts.append(_written(section, words, _alike(section.model, written)))
        written.setdefault(section.model, section)
    parts.append(_environment())
    return page("Configuration", "`runtime/configuration`", *parts)


def _intro() -> str:
    return (
        "Everything in `flyball.toml` has a default but what is marked *required*; an unknown key "
        "is an error that names the nearest known one. `flyball init` writes a commented file, "
        "`flyball doctor` checks it, and `POST /admin/v1/reload` (or SIGHUP) takes a changed one "
        "over and says which keys need a restart."
    )


def _alike(
    model: type[BaseModel], written: Mapping[type[BaseModel], _Section]
) -> tuple[_Section, tuple[str, ...]] | None:
    """Return the table before it that has all its keys, or whose keys it has too, and the rest."""
    for known, section in written.items():
        if issubclass(known, model):
            return section, ()
        if issubclass(model, known):
            return section, tuple(set(model.model_fields) - set(known.model_fields))
    return None


def _sections(model: type[BaseModel], path: str) -> Iterator[_Section]:
    for name, field in model.model_fields.items():
        for inner, is_list in _models_of(field.annotation):
            here = f"{path}.{name}" if path else name
            yield _Section(path=here, is_list=is_list, model=inner)
            yield from _sections(inner, here)


def _models_of(annotation: Any, *, is_list: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """Yield each table that a value of this type may be, and whether there can be several."""
    annotation = _bare(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, is_list
        return
    origin = get_origin(annotation)
    if origin in (Literal, dict):
        return
    several = is_list or origin in (tuple, list)
    for part in get_args(annotation):
        if part is not Ellipsis:
            yield from _models_of(part, is_list=several)


def _bare(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _written(
    section: _Section,
    words: Mapping[tuple[str, str], str],
    alike: tuple[_Section, tuple[str, ...]] | None,
) -> str:
    parts = [
        f"## `{section.name}` {{ #{section.anchor} }}",
        " ".join((section.model.__doc__ or "").split()),
    ]
    keys: Collection[str] = section.model.model_fields
    if alike is not None:
        other, keys = alike
        more = ", and these:" if keys else "."
        parts.append(f"Its keys are those of [`{other.name}`](#{other.anchor}){more}")
    rows = [
        (code(key), _type_of(field), _default_of(field), _words_for(section, key, words))
        for key, field in section.model.model_fields.items()
        if key in keys
    ]
    if rows:
        parts.append(table(("key", "value", "default", "what it says"), rows))
    return "\n\n".join(parts)


def undescribed() -> list[str]:
    """Return the keys of which nothing says what they mean."""
    words = _template_words()
    return sorted(
        f"{_declarer(section.model, key).__name__}.{key}"
        for section in _sections(Config, "")
        for key in section.model.model_fields
        if not _words_for(section, key, words)
    )


def words_of_nothing() -> list[str]:
    """Return what `words.toml` describes that is no key of the configuration."""
    known = {
        (_declarer(section.model, key).__name__, key)
        for section in _sections(Config, "")
        for key in section.model.model_fields
    }
    return sorted(
        f"{table}.{key}"
        for table, keys in _written_down().items()
        for key in keys
        if (table, key) not in known
    )


def _template_words() -> Mapping[tuple[str, str], str]:
    return words_of(files("runtime.configuration").joinpath("template.toml").read_text("utf-8"))


def _declarer(model: type[BaseModel], key: str) -> type[BaseModel]:
    """Return the class that declares a key last."""
    return next(kind for kind in model.__mro__ if key in inspect.get_annotations(kind))


def _words_for(section: _Section, key: str, words: Mapping[tuple[str, str], str]) -> str:
    """Return what the template says of a key, else what the source or `words.toml` does."""
    tables = [section.path, section.path.rpartition(".")[2]]
    if section.path in ("rule", "default"):
        tables += ["default", "rule"]
    if section.path in ("turns", "turn_rule"):
        tables += ["turns"]
    for name in tables:
        if (name, key) in words:
            return words[name, key]
    declarer = _declarer(section.model, key)
    field = section.model.model_fields[key]
    said = comments_of(declarer).get(key) or _written_down().get(declarer.__name__, {}).get(key)
    if said or field.description:
        return said or field.description or _NO_WORDS
    inner = [model for model, _ in _models_of(field.annotation)]
    return " ".join((inner[0].__doc__ or "").split()) if inner else _NO_WORDS


@cache
def _written_down() -> Mapping[str, Mapping[str, str]]:
    """Return what is said of keys of which neither the template nor the source says anything."""
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def _default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "its own"
    if value is None:
        return "unset"
    return code(_toml(value))


def _toml(value: Any) -> str:
    if isinstance(value, Enum):
        return json.dumps(value.value)
    if isinstance(value, (frozenset, set)):
        return _toml(tuple(sorted(value)))
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (str, bool, int, float)):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(str(value), ensure_ascii=False)


def _type_of(field: FieldInfo) -> str:
    bounds = _bounds(field.metadata)
    return f"{_named(field.annotation)}{bounds}"


def _named(annotation: Any) -> str:
    """Return in words what a value of this type is."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        named = f"{_named(inside[0])}{_bounds(inside[1:])}"
    elif origin is Literal:
        named = _choices(inside)
    elif origin in (Union, types.UnionType):
        named = " or ".join(dict.fromkeys(_named(each) for each in inside if each is not _NONE))
    elif origin in (tuple, list, frozenset, set):
        named = f"list of {_named(inside[0])}"
    elif origin is dict:
        named = f"table of {_named(inside[1])}"
    elif issubclass(annotation, Enum):
        named = _choices([member.value for member in annotation])
    elif issubclass(annotation, BaseModel):
        named = "table"
    else:
        named = _PLAIN.get(annotation, "any value")
    return named


def _choices(values: Sequence[object]) -> str:
    shown = [code(_toml(value)) for value in values[:_CHOICES_MAX]]
    return ", ".join(shown) + (", …" if len(values) > _CHOICES_MAX else "")


def _bounds(metadata: Sequence[Any]) -> str:
    low, high = "", ""
    for bound in metadata:
        match bound:
            case annotated_types.Ge(ge=value):
                low = f"≥ {value:,}"
            case annotated_types.Gt(gt=value):
                low = f"> {value:,}"
            case annotated_types.Le(le=int() | float() as value) if value < 10**15:
                high = f"≤ {value:,}"
            case annotated_types.Lt(lt=int() | float() as value) if value < 10**15:
                high = f"< {value:,}"
            case _:
                continue
    found = ", ".join(filter(None, (low, high)))
    return f" ({found})" if found else ""


def _environment() -> str:
    rows = []
    comments = comments_of(Settings)
    for name, field in Settings.model_fields.items():
        default = field.get_default()
        shown = "unset" if default is None else code(_relative(str(default)))
        said = field.description or comments.get(name, _NO_WORDS)
        rows.append((code(f"FLYBALL_{name.upper()}"), _named(field.annotation), shown, said))
    return (
        "## Environment\n\nThe command line (`--config`, `--state`) goes before these.\n\n"
        + table(("variable", "value", "default", "what it says"), rows)
    )


def _relative(path: str) -> str:
    return path.rpartition("/")[2] if path.startswith("/") else path

"""The page of every metric, read from the calls that make the instruments."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from docs.tools.markdown import code, page, table

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("runtime", "tool_gateway", "memory_store", "ebpf")
# What makes an instrument, with what Prometheus adds to its name.
_COUNTER, _GAUGE, _HISTOGRAM = "counter", "gauge", "histogram"
_MADE_BY = {
    "create_counter": _COUNTER,
    "create_observable_counter": _COUNTER,
    "create_up_down_counter": _GAUGE,
    "create_gauge": _GAUGE,
    "create_observable_gauge": _GAUGE,
    "create_histogram": _HISTOGRAM,
    "Tally": _COUNTER,
    "Level": _GAUGE,
    "Histogram": _HISTOGRAM,
}
_MEASURING = ("add", "record", "set", "of")
_UNITS = {"ms": "_milliseconds", "s": "_seconds"}
_OURS = ("flyball_", "flyball.", "gen_ai.", "mcp.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """An instrument as a scrape shows it."""

    name: str
    kind: str
    description: str
    labels: tuple[str, ...]
    made_in: str


def metrics_page() -> str:
    """Return the page."""
    rows = [
        (code(metric.name), metric.kind, _shown_labels(metric), metric.description)
        for metric in metrics()
    ]
    intro = (
        "`GET /metrics` of the administrators' listener shows these in Prometheus' text format and "
        "needs no token. A histogram is shown as `…_bucket`, `…_sum` and `…_count`. "
        "Every label's values are words of Flyball's own or names out of the configuration: no "
        "client can make more of them. With several workers each has the label `process` too."
    )
    return page(
        "Metrics",
        "the instruments in the code",
        intro,
        table(("metric", "kind", "labels", "what it says"), rows),
    )


def _shown_labels(metric: Metric) -> str:
    """Return the labels; those of the semantic conventions stand in no single place of the code."""
    if metric.kind == _HISTOGRAM and metric.name.startswith(("gen_ai_", "mcp_")):
        return "those of OpenTelemetry's conventions"
    return ", ".join(map(code, metric.labels))


@cache
def metrics() -> tuple[Metric, ...]:
    """Return every instrument of the packages, by name."""
    found: dict[str, Metric] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            # To parse every module of the house takes seconds.
            if not any(f"{maker}(" in text for maker in _MADE_BY):
                continue
            for metric in _made_in(ast.parse(text), path.relative_to(ROOT).as_posix()):
                found[metric.name] = metric
    return tuple(found[name] for name in sorted(found))


def _made_in(tree: ast.Module, where: str) -> Iterator[Metric]:
    labels = _labels_given(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            metric = _instrument(node.value, where)
            if metric is not None:
                given = labels.get(node.targets[0].id, ())
                yield metric if metric.labels else replace(metric, labels=tuple(sorted(given)))
        elif isinstance(node, ast.Expr):
            metric = _instrument(node.value, where)
            if metric is not None:
                yield replace(metric, labels=_observed(node.value, tree))


def _instrument(node: ast.expr, where: str) -> Metric | None:
    if not isinstance(node, ast.Call):
        return None
    maker = node.func.attr if isinstance(node.func, ast.Attribute) else None
    maker = node.func.id if isinstance(node.func, ast.Name) else maker
    kind = _MADE_BY.get(maker or "")
    words = [_constant(argument) for argument in node.args]
    words += [_constant(given.value) for given in node.keywords if given.arg == "name"]
    name = next((word for word in words if word and word.startswith(_OURS)), None)
    name = None if name is None or name in {"flyball.runtime", "flyball.tool_gateway"} else name
    if kind is None or name is None:
        return None
    given = {entry.arg: _constant(entry.value) or "" for entry in node.keywords}
    shown = name.replace(".", "_") + _UNITS.get(given.get("unit", ""), "")
    if kind == _COUNTER and not shown.endswith("_total"):
        shown += "_total"
    labels = _named_labels(node) if maker in {"Tally", "Level"} else ()
    return Metric(
        name=shown,
        kind=kind,
        description=given.get("description", "").removesuffix("."),
        labels=labels,
        made_in=where,
    )


def _named_labels(node: ast.Call) -> tuple[str, ...]:
    """Return the labels that a tally or level is made with: what comes after its name."""
    if len(node.args) < 3:  # noqa: PLR2004 - meter, name, labels
        return ()
    labels = node.args[2]
    if isinstance(labels, ast.Tuple):
        return tuple(filter(None, map(_constant, labels.elts)))
    return tuple(filter(None, [_constant(labels)]))


def _labels_given(tree: ast.Module) -> Mapping[str, set[str]]:
    """Return, for each variable, the keys of the dictionaries that it is measured with."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _MEASURING
            and isinstance(node.func.value, ast.Name)
        ):
            for argument in node.args:
                found[node.func.value.id] |= _keys(argument)
    return found


def _observed(made: ast.expr, tree: ast.Module) -> tuple[str, ...]:
    """Return the labels of what the callbacks of an observable instrument yield."""
    assert isinstance(made, ast.Call)
    names = {name.id for name in ast.walk(made) if isinstance(name, ast.Name)}
    keys: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call):
                    keys |= {key for argument in inner.args for key in _keys(argument)}
    return tuple(sorted(keys))


def _keys(node: ast.expr) -> set[str]:
    if not isinstance(node, ast.Dict):
        return set()
    return {word.replace(".", "_") for key in node.keys if key and (word := _constant(key))}


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

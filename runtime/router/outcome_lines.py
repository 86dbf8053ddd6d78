"""Reading recorded outcomes line by line from JSON lines, with errors that name the line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from runtime.errors import RuntimeFaultError

PROMPT_CHARS_MAX = 4_000_000
_FEATURES_MAX = 64
_SHOWN_CHARS = 60
# Dollars of one call: what is summed up and divided by stays a number.
_COST_LEAST, _COST_MOST = 1e-12, 1e9


class OutcomesFileError(RuntimeFaultError):
    """A file of outcomes is not usable; the message names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One prompt: what each tier made of it, and what could be seen of a tier once it had run."""

    number: int
    name: str
    group: str
    prompt: str
    scores: Mapping[str, float]
    costs: Mapping[str, float]
    features: Mapping[str, Mapping[str, float]]


def read_lines(path: Path, *, lines_max: int) -> list[Line]:
    """Return the outcomes in `path`: one prompt a line with id, group, prompt and tiers.

    Raises:
        OutcomesFileError: the file cannot be read, or a line of it is not usable.
    """
    found: list[Line] = []
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, text in enumerate(file, start=1):
                if number > lines_max:
                    raise OutcomesFileError(f"{path}: more than {lines_max} lines; give a sample")
                if text.strip():
                    found.append(_line(text, number, f"{path}, line {number}"))
    except OSError as error:
        raise OutcomesFileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OutcomesFileError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    if not found:
        raise OutcomesFileError(f"{path}: is empty")
    return found


def _line(text: str, number: int, where: str) -> Line:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise OutcomesFileError(f"{where}: is not JSON: {error}") from error
    except RecursionError as error:
        raise OutcomesFileError(f"{where}: is nested too deeply") from error
    if not isinstance(fields, dict):
        raise OutcomesFileError(f"{where}: expected an object, got {_shown(text.strip())}")
    prompt = fields.get("prompt")
    if not isinstance(prompt, str) or len(prompt) > PROMPT_CHARS_MAX:
        raise OutcomesFileError(
            f"{where}: prompt: expected a text of at most {PROMPT_CHARS_MAX} characters"
        )
    outcomes = _outcomes(fields.get("tiers"), where)
    return Line(
        number=number,
        name=_name(fields.get("id", str(number)), "id", where),
        group=_name(fields.get("group", ""), "group", where),
        # Halves of pairs can be written in JSON and in no encoding.
        prompt=prompt.encode("utf-8", "replace").decode(),
        scores={tier: score for tier, (score, _) in outcomes.items()},
        costs={tier: cost for tier, (_, cost) in outcomes.items()},
        features=_features(fields.get("features"), where),
    )


def _name(value: object, field: str, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise OutcomesFileError(f"{where}: {field}: expected a text")
    return str(value)


def _outcomes(tiers: object, where: str) -> dict[str, tuple[float, float]]:
    if not isinstance(tiers, dict) or not tiers:
        raise OutcomesFileError(
            f'{where}: tiers: expected {{"NAME": {{"score": 0..1, "cost": dollars}}, …}}'
        )
    found = {}
    for name, outcome in tiers.items():
        if not isinstance(outcome, dict):
            raise OutcomesFileError(f"{where}: tiers.{_shown(name)}: expected score and cost")
        score = _number(outcome.get("score"))
        cost = _number(outcome.get("cost"))
        if score is None or not 0 <= score <= 1:
            raise OutcomesFileError(
                f"{where}: tiers.{_shown(name)}.score: expected a number from 0 to 1, "
                f"got {_shown(outcome.get('score'))}"
            )
        if cost is None or not (cost == 0 or _COST_LEAST <= cost <= _COST_MOST):
            raise OutcomesFileError(
                f"{where}: tiers.{_shown(name)}.cost: expected dollars, 0 or from {_COST_LEAST:g} "
                f"to {_COST_MOST:g}, got {_shown(outcome.get('cost'))}"
            )
        found[name] = (score, cost)
    return found


def _features(value: object, where: str) -> dict[str, dict[str, float]]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(seen, dict) for seen in value.values()):
        raise OutcomesFileError(f"{where}: features: expected an object for each tier")
    found: dict[str, dict[str, float]] = {}
    for tier, seen in value.items():
        if len(seen) > _FEATURES_MAX:
            raise OutcomesFileError(f"{where}: features.{_shown(tier)}: more than {_FEATURES_MAX}")
        found[tier] = {}
        for key, content in seen.items():
            number = _number(content)
            if content is not None and number is None:
                raise OutcomesFileError(
                    f"{where}: features.{_shown(tier)}.{_shown(key)}: expected a number, "
                    f"got {_shown(content)}"
                )
            if number is not None:
                found[tier][key] = number
    return found


def _number(value: Any) -> float | None:
    """Return a finite number; true counts as one, as in a column that says what was resolved."""
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _shown(value: object) -> str:
    return f"{value!r:.{_SHOWN_CHARS}}" if not isinstance(value, str) else value[:_SHOWN_CHARS]

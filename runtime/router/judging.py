"""A tier asked to score another's answer by a small rubric."""

import re

import msgspec

from runtime.model_gateway.model_request import ModelRequest
from runtime.router.conversation import last_words, question
from runtime.router.drafts import written
from runtime.router.fencing import Marker, fenced, rule_of
from runtime.router.said import Said
from runtime.router.strategy_terms import DRAFT_CHARS_MAX, JUDGE_TOKENS, QUESTION_CHARS_MAX

_SCORE = re.compile(r'"score"\s*:\s*(\d+(?:\.\d+)?)')
_SCORE_MAX = 10.0
_RUBRIC = (
    "You score an answer to a question. Count 4 points for being correct, 3 for answering all "
    "of what was asked, 2 for following the form that was asked for, and 1 for making nothing "
    'up. Answer with JSON alone: {"score": a number from 0 to 10}.'
)


def judging(request: ModelRequest, said: Said, *, tier: str, marker: Marker) -> ModelRequest:
    """Return the question to the judge about an answer to `request`."""
    words, draft = last_words(request, QUESTION_CHARS_MAX), written(said)
    mark = marker(words + draft)
    asked = fenced(
        words,
        kind="question",
        mark=mark,
        chars_max=QUESTION_CHARS_MAX,
    )
    answer = fenced(draft, kind="answer", mark=mark, chars_max=DRAFT_CHARS_MAX)
    return question(
        request,
        tier=tier,
        told=f"{_RUBRIC} {rule_of('question', mark)} {rule_of('answer', mark)}",
        asked=f"{asked}\n{answer}",
        output_tokens=JUDGE_TOKENS,
    )


def score_in(said: Said) -> float | None:
    """Return the score from 0 to 1 that a judge gave; None where it gave none."""
    try:
        found = msgspec.json.decode(said.text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = None
    score = found.get("score") if isinstance(found, dict) else None
    if score is None and (match := _SCORE.search(said.text)) is not None:
        score = float(match[1])
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return None
    return score / _SCORE_MAX if 0 <= score <= _SCORE_MAX else None

"""What is learned of a log and what is held out, and that what is kept of a choice can be read."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.learning.choice import Option
from runtime.router.features import PromptReader, SessionStanding
from runtime.router.predictor import OutcomeRow
from runtime.router.recorder import WAITING_MAX, Recorder
from runtime.router.training import file_rows, gain_on_file, log_rows
from runtime.router.written import WrittenError, options_of, options_text, packed, unpacked
from runtime.word_vectors import vectors_if_any
from tests.memory_store.router_makers import decision
from tests.runtime.router.makers import READER, KnownModel, ListLog

READ = packed(READER.read("Why?"), meaning_axes=READER.widths.meaning)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def item(number: int, **more: Any) -> dict[str, Any]:
    return {
        "call_id": f"call_{number}",
        "decided_at_ms": number,
        "tier": "low",
        "propensity": 0.05,
        "options": [["low", 0.5, 7.0, 0.05], ["high", 0.8, 70.0, 0.95]],
        "features_base64": base64.b64encode(READ).decode(),
        "status": "ok",
        "cost_microusd": 12,
        "score": 0.5,
        "weight": 0.5,
        "agent": "ada",
        "is_trusted": False,
        **more,
    }


def test_the_latest_part_of_the_log_is_held_out() -> None:
    read = log_rows([item(number) for number in reversed(range(10))], influence_per_day=50.0)

    assert (len(read.rows), read.until_ms, read.held_out) == (7, 6, 3)


def test_what_was_taken_seldom_counts_for_what_was_not_tried_within_bounds() -> None:
    (row, _, _) = log_rows([item(number) for number in range(4)], influence_per_day=50.0).rows

    assert row.scores == {"low": 0.5}
    assert row.costs_microusd == {"low": 12.0}
    assert row.weights == {"low": 5.0}


def test_weak_signs_and_unreadable_features_teach_nothing() -> None:
    items = [item(1, weight=0.1), item(2, score=None), item(3, features_base64="?"), item(4)]

    # Of the four that are rated well one is held out, and one cannot be read.
    assert len(log_rows([*items, item(5), item(6)], influence_per_day=50.0).rows) == 2


@pytest.mark.parametrize("status", ["denied", "upstream_failed", None])
def test_calls_that_no_tier_served_teach_nothing(status: str | None) -> None:
    items = [item(number) for number in range(4)]
    unserved = [item(number, status=status) for number in range(10, 20)]

    assert len(log_rows([*items, *unserved], influence_per_day=50.0).rows) == 3


@pytest.mark.requirement("router.poisoning-bounded")
def test_an_agents_own_words_of_a_day_teach_so_much_and_no_more() -> None:
    items = [item(number, propensity=1.0) for number in range(1_000)]
    harness = [item(number, propensity=1.0, is_trusted=True) for number in range(10)]

    rows = log_rows([*items, *harness], influence_per_day=20.0).rows

    weights = sorted(row.weights["low"] for row in rows if row.weights is not None)
    assert sum(weights) == pytest.approx(20.0 + 10 * 0.5)
    assert weights[-10:] == [0.5] * 10


def test_a_file_is_divided_by_the_words_of_its_prompts(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    lines = [
        {"id": n, "prompt": f"p{n}", "tiers": {"low": {"score": 1, "cost": 0.5}}, "more": 1}
        for n in range(500)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")

    read, again = file_rows(path), file_rows(path)

    assert len(read.rows) + len(read.held_out) == 500
    assert 100 < len(read.held_out) < 200
    assert [row.text for row in read.held_out] == [row.text for row in again.held_out]
    assert read.rows[0].costs_microusd == {"low": 500_000.0}


def test_a_prompt_that_is_recorded_twice_is_not_both_learned_and_held_out(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    lines = [
        {"id": n, "prompt": f"p{n % 50}", "tiers": {"low": {"score": 1, "cost": 0.5}}}
        for n in range(500)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))

    read = file_rows(path)

    held_out = {row.text for row in read.held_out}
    assert 5 < len(held_out) < 45
    assert not held_out & {row.text for row in read.rows}


def test_the_gain_on_a_file_is_over_the_best_fixed_tier() -> None:
    class Knowing(KnownModel):
        def predict(self, text: str, state: Any = None) -> Any:
            return KnownModel(
                {"low": 1.0, "high": 0.0} if "easy" in text else {"low": 0.0, "high": 1.0}
            ).forecast(READER.read(text))

    rows = [
        OutcomeRow(
            text=f"easy {n}" if n % 2 else f"hard {n}",
            scores={"low": n % 2, "high": 1 - n % 2},
            costs_microusd={"low": 1.0, "high": 1.0},
        )
        for n in range(100)
    ]

    gain = gain_on_file(Knowing({"low": 0.5, "high": 0.5}), rows, price=0.0)

    assert gain is not None
    assert gain.value == pytest.approx(0.5)
    assert gain.low > 0.3
    assert gain.n == 100
    again = gain_on_file(Knowing({"low": 0.5, "high": 0.5}), rows * 9, price=0.0)
    assert again is not None
    assert (again.n, again.low) == (100, pytest.approx(gain.low, abs=0.001))
    assert (
        gain_on_file(KnownModel({"low": 1, "other": 1}, {"low": 1, "other": 1}), rows, price=0)
        is None
    )


@given(st.text(max_size=200), st.integers(0, 50))
def test_features_are_read_as_they_were_written(text: str, turn: int) -> None:
    reader = PromptReader(vectors_if_any())
    features = reader.read(text, SessionStanding(turn=turn))

    content = packed(features, meaning_axes=reader.widths.meaning)

    assert np.abs(unpacked(content) - features).max() < 0.01
    assert len(content) < 1_200


@pytest.mark.parametrize("content", [b"", b"\x01", READ[:-1], READ + b"x", b"\x02" + READ[1:]])
def test_what_is_no_features_is_refused(content: bytes) -> None:
    with pytest.raises(WrittenError):
        unpacked(content)


def test_options_are_read_as_they_were_written() -> None:
    option = Option(
        tier='ti"er', quality=0.25, spread=0.1, cost_microusd=12.5, cost_max_microusd=20
    )

    found = options_of(options_text([option], np.array([1.0])))

    assert found['ti"er'].quality == 0.25
    assert found['ti"er'].propensity == 1.0
    with pytest.raises(WrittenError):
        options_of("{}")


@pytest.mark.anyio
@pytest.mark.requirement("router.log-kept")
async def test_a_log_that_is_away_loses_the_oldest_and_keeps_the_rest() -> None:
    log = ListLog()
    recorder = Recorder(log, signs=tuple)
    for number in range(WAITING_MAX + 10):
        recorder.decided(decision(str(number)))

    await recorder.flush()

    kept = [one.call_id for one in log.decisions]
    assert len(kept) == WAITING_MAX
    assert kept[0] == "call_10"
    assert kept[-1] == f"call_{WAITING_MAX + 9}"

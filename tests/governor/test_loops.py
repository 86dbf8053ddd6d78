"""Loops and what only looks like one, call by call."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidPolicyError
from governor.ids import CallId
from governor.likeness import print_of_call, print_of_result
from governor.loops import (
    BREAKER,
    COUNT_MAX,
    ENTRIES_MAX,
    HISTORY_BYTES_MAX,
    REMINDERS,
    Entry,
    History,
    LoopKind,
    LoopRule,
    judge_after,
    judge_before,
    opaque,
)

# How a tool calls itself: it only reads, it may be repeated, or it says nothing.
READS, IDEMPOTENT, SILENT = "reads", "idempotent", "silent"


@dataclass(frozen=True, kw_only=True)
class Step:
    tool: str = "search"
    arguments: dict[str, object] = field(default_factory=dict)
    result: str = "nothing found"
    hint: str = READS
    is_error: bool = False
    is_off: bool = False
    after_ms: int = 1_000


def read(result: str = "nothing found", **arguments: object) -> Step:
    return Step(arguments=arguments, result=result)


def write(result: str = "ok", tool: str = "save", **arguments: object) -> Step:
    return Step(tool=tool, arguments=arguments, result=result, hint=SILENT)


def failing(**arguments: object) -> Step:
    return Step(tool="open", arguments=arguments, result="no such file", hint=SILENT, is_error=True)


def play(steps: Iterable[Step], rule: LoopRule) -> list[tuple[str, LoopKind | None]]:
    """Return, step by step, what was done: - nothing, or the first letter of the measure."""
    history, told, now_ms = History(), [], 1_000_000
    for number, step in enumerate(steps):
        now_ms += step.after_ms
        answer = CallId(f"call_{number}")
        if step.is_off:
            history.note(opaque(answer, at_ms=now_ms))
            told.append(("-", None))
            continue
        is_reading = step.hint == READS
        entry = Entry(
            answer=answer,
            asked=print_of_call(step.tool, step.arguments),
            result=None,
            is_reading=is_reading,
            is_repeatable=is_reading or step.hint == IDEMPOTENT,
            is_error=False,
            at_ms=now_ms,
        )
        loop = judge_before(history, entry, rule)
        if loop is not None:
            history.note(entry.answered_like(loop.like))
        else:
            entry = replace(
                entry,
                result=print_of_result((step.result,), is_error=step.is_error, with_ids=is_reading),
                is_error=step.is_error,
            )
            loop = judge_after(history, entry, rule)
            history.note(entry)
        told.append(("-", None) if loop is None else (loop.measure.value[0], loop.kind))
    return told


def letters(steps: Iterable[Step], rule: LoopRule) -> str:
    return "".join(letter for letter, _ in play(steps, rule))


PAIR = [read("A", q="one"), read("B", q="two")]
LONG = "select the name of every customer who bought at least one thing in the last year and then "

LOOPS = {
    "the same reading call": ([read(q="x")] * 12, "--rssddddddp"),
    "the same call of a tool that says nothing of itself": ([write(a=1)] * 12, "--rrrddddddp"),
    "the same call of an idempotent tool": (
        [Step(tool="set", arguments={"a": 1}, hint=IDEMPOTENT)] * 7,
        "--rssdd",
    ),
    "the same call, its arguments in another order": (
        [read(a=1, b=2), read(b=2, a=1)] * 3,
        "--rssd",
    ),
    "the same call but for a request id": (
        [read(q="x", request_id=f"r{n}") for n in range(6)],
        "--rssd",
    ),
    "the same call but for a timestamp": (
        [read(q="x", timestamp=1_700_000_000 + n) for n in range(6)],
        "--rssd",
    ),
    "the same failing call is never served": ([failing(path="/a")] * 6, "--rrrd"),
    "a reading call that fails is never served": (
        [replace(read("no such file", path="/a"), is_error=True)] * 6,
        "--rrrd",
    ),
    "a pair in turn": (PAIR * 6, "-----rrssssd"),
    "a pair in turn that may write": (
        [write(a=1), write("fine", b=2)] * 6,
        "-----rrrrrrd",
    ),
    "three in turn": ([*PAIR, read("C", q="three")] * 4, "--------rrrs"),
    "four in turn": ([*PAIR, read("C", q="three"), read("D", q="four")] * 3, "-----------r"),
    "the same reading call in other words and spaces": (
        [read(q="Find  the CAT"), read(q="find the cat")] * 3,
        "--rrrd",
    ),
    "long reading calls that differ by a word": (
        [read(q=LONG + word) for word in ("sort", "order", "rank", "list", "group", "count")],
        "--rrrd",
    ),
    "reading calls with names of temporary files": (
        [read(path=f"/tmp/run-{n}/out.txt") for n in range(6)],
        "--rrrd",
    ),
    "the same result but for a time and a duration": (
        [read(f"none (took {n}.5 ms at 2026-01-01T10:00:0{n}Z)", q="x") for n in range(6)],
        "--rssd",
    ),
    "the same JSON result but for the request's id": (
        [read(f'{{"request_id": "r{n}", "rows": []}}', q="x") for n in range(6)],
        "--rssd",
    ),
    "different readings without a new result": (
        [read(q=f"{word} {word}") for word in "abcdefgh"],
        "-----rrr",
    ),
    "different readings without a new result, for long": (
        [read(q=f"{n * 7919} {n}") for n in range(21)],
        "-" * 5 + "r" * 14 + "dd",
    ),
    "different calls that fail in the same words": (
        [failing(path=f"/{word}/{word}") for word in "abcdefg"],
        "-----rr",
    ),
    "a loop after some work": ([read("A", q="a"), read("B", q="b"), *[read(q="x")] * 4], "----rs"),
    "a loop that is taken up again": (
        [*[read(q="x")] * 3, write(a=1), *[read(q="x")] * 3],
        "--r---r",
    ),
}

WORK = {
    "pages with a moving cursor": [read(f"rows {n}", cursor=n) for n in range(12)],
    "pages by an opaque cursor": [read(f"rows {n}", cursor=f"c{n * 31}") for n in range(12)],
    "one more page of a tool without arguments": [read(f"item {n}") for n in range(12)],
    "polling that moves": [read(f"{n} % done", job=1) for n in range(12)],
    "tests that fail less": [read(f"{12 - n} failed", suite="all") for n in range(12)],
    "polling once a minute": [replace(read("running", job=1), after_ms=150_000)] * 12,
    "polling, switched off": [replace(read("running", job=1), is_off=True)] * 12,
    "edit and test": [
        step
        for n in range(6)
        for step in (write("saved", path="a.py", text=f"version {n}"), read("3 failed", suite="a"))
    ],
    "different writes that all say ok": [write(row=n, text=f"text {n}") for n in range(5)],
    "rows that differ by a number, all ok": [write(number=n) for n in range(12)],
    "records made by the same order": [
        write(f'{{"id": "9b2f6c1e-0000-4000-8000-00000000000{n}"}}', kind="x") for n in range(9)
    ],
    "one call twice": [read(q="x")] * 2,
    "two calls taking turns, with news": [
        step for n in range(6) for step in (read(f"{n}", q="log"), read(f"b{n}", q="state"))
    ],
    "a pair, parted by what nobody watches": [
        step for n in range(6) for step in (read(q="x"), replace(write(a=1), is_off=True))
    ],
    "empty files in different places": [
        Step(tool="read_file", arguments={"path": f"{name}/__init__.py"}, result="")
        for name in ("api", "core", "store", "web", "tests")
    ],
    "a thing looked up by different ids": [
        read("not found", id=f"9b2f6c1e-0000-4000-8000-00000000000{n}") for n in range(5)
    ],
    "different windows of time": [
        read("no data", start=f"2026-01-0{n}T00:00:00Z", end=f"2026-01-0{n}T12:00:00Z")
        for n in range(1, 6)
    ],
}


@pytest.mark.requirement("loop.trips-at-its-count")
@pytest.mark.parametrize(("steps", "said"), LOOPS.values(), ids=LOOPS)
def test_a_loop_meets_each_measure_at_exactly_its_call(steps: list[Step], said: str) -> None:
    assert letters(steps, BREAKER) == said


@pytest.mark.requirement("loop.progress-is-none")
@pytest.mark.parametrize("steps", WORK.values(), ids=WORK)
def test_work_that_looks_like_a_loop_is_left_alone(steps: list[Step]) -> None:
    assert letters(steps, BREAKER) == "-" * len(steps)


KINDS = {
    LoopKind.IDENTICAL: [read(q="x")] * 3,
    LoopKind.ALTERNATING: PAIR * 3,
    LoopKind.NEAR_IDENTICAL: [read(q="The Cat"), read(q="the cat"), read(q="THE CAT")],
    LoopKind.NO_PROGRESS: [read(q=f"{word} {word}") for word in "abcdef"],
}


@pytest.mark.parametrize(("kind", "steps"), KINDS.items(), ids=KINDS)
def test_a_loop_is_called_by_its_kind(kind: LoopKind, steps: list[Step]) -> None:
    assert play(steps, REMINDERS)[-1] == ("r", kind)


def test_the_default_reminds_and_never_stops_a_call() -> None:
    assert letters([read(q="x")] * 40, REMINDERS) == "--" + "r" * 38


def test_a_call_that_changed_something_in_a_cycle_keeps_the_others_from_being_served() -> None:
    pair = [read("A", q="one"), write("B", a=1)]

    assert letters(pair * 6, BREAKER) == "-----rrrrrrd"


def test_a_near_call_of_a_tool_that_may_write_is_only_reminded_of() -> None:
    steps = [write(text="Hello world"), write(text="hello   world")] * 10

    assert set(letters(steps, BREAKER)[: BREAKER.stale - 1]) == {"-"}
    # Taken in turn they are the same pair again and again, which is a loop for any tool.
    assert letters(steps, replace(BREAKER, remind=0, deny=0, pause=0)) == "-" * 5 + "r" * 15


def test_a_result_that_changes_ends_the_loop() -> None:
    steps = [*[read(q="x")] * 3, read("found", q="x"), *[read("found", q="x")] * 2]

    # The fourth is served, as nobody can know; what is served is only ever a few.
    assert letters(steps, replace(BREAKER, serve=0)) == "--r--r"


@given(
    remind=st.integers(2, 10), gap=st.integers(1, 10), calls=st.integers(1, 60), reads=st.booleans()
)
def test_a_ladder_is_climbed_at_its_own_counts(
    remind: int,
    gap: int,
    calls: int,
    reads: bool,  # noqa: FBT001
) -> None:
    serve, deny, pause = remind + gap, remind + 2 * gap, remind + 3 * gap
    rule = LoopRule(remind=remind, serve=serve, deny=deny, pause=pause, stale=0)
    step = read(q="x") if reads else write(a=1)

    said = letters([step] * calls, rule)

    def expected(call: int) -> str:
        if call >= pause:
            return "p"
        if call >= deny:
            return "d"
        if call >= serve and reads:
            return "s"
        return "r" if call >= remind else "-"

    assert said == "".join(expected(call) for call in range(1, calls + 1))


@given(results=st.lists(st.text(max_size=5), min_size=1, max_size=30, unique=True))
def test_new_results_are_never_a_loop(results: list[str]) -> None:
    steps = [read(f"row:{n}:{result!r}", q="x") for n, result in enumerate(results)]

    assert "r" not in letters(steps, REMINDERS)


@given(period=st.integers(1, 4), rounds=st.integers(1, 8))
def test_a_cycle_trips_when_its_round_is_complete(period: int, rounds: int) -> None:
    words = ["alpha", "beta", "gamma", "delta"]
    cycle = [read(f"result {word}", q=word) for word in words[:period]]

    said = letters(cycle * rounds, LoopRule(remind=3, stale=0))

    quiet = min(3 * period - 1, period * rounds)
    assert said == "-" * quiet + "r" * (period * rounds - quiet)


@given(sizes=st.lists(st.integers(0, 3_000), max_size=400))
def test_a_history_keeps_within_its_bounds(sizes: list[int]) -> None:
    history = History()

    for number, size in enumerate(sizes):
        text = " ".join(f"w{number}x{n}" for n in range(size // 50))
        entry = opaque(CallId(f"call_{number}"), at_ms=number)
        history.note(replace(entry, asked=print_of_call("t", {"q": text})))

    assert len(history) <= ENTRIES_MAX
    assert history.size_bytes <= HISTORY_BYTES_MAX
    assert bool(sizes) is bool(len(history))


def test_long_calls_are_remembered_in_smaller_number() -> None:
    history = History()
    long_text = " ".join(f"word{n}" for n in range(200))

    for number in range(ENTRIES_MAX):
        entry = opaque(CallId(f"call_{number}"), at_ms=number)
        history.note(replace(entry, asked=print_of_call("t", {"q": long_text, "n": number})))

    assert 100 < len(history) < ENTRIES_MAX
    assert history.size_bytes <= HISTORY_BYTES_MAX
    assert history.since(-1)[-1].at_ms == ENTRIES_MAX - 1


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"remind": 1}, "loops.remind: 1 is outside 2..50"),
        ({"deny": COUNT_MAX + 1}, "loops.deny: 51 is outside 2..50"),
        ({"remind": 4, "serve": 4}, "loops.serve: 4 is not above remind = 4"),
        ({"remind": 0, "serve": 5, "deny": 3}, "loops.deny: 3 is not above serve = 5"),
        ({"stale": 9, "stale_deny": 8}, "loops.stale_deny: 8 is not above stale = 9"),
        ({"within_ms": 0}, "loops.within_ms: 0 is not above 0"),
    ],
)
def test_a_ladder_that_cannot_be_climbed_is_refused(counts: dict[str, int], said: str) -> None:
    with pytest.raises(InvalidPolicyError, match=said.replace(".", r"\.")):
        LoopRule(**counts)

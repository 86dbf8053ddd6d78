from hypothesis import given
from hypothesis import strategies as st

from governor.learning.averages import Average, UsualTokens, class_of


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_an_average_stays_within_what_was_seen(values: list[float]) -> None:
    average = Average()

    for value in values:
        average = average.noted(value)

    slack = 1e-6 * max(values) + 1e-9
    assert min(values) - slack <= average.mean <= max(values) + slack


def test_a_class_is_unknown_until_some_queries_were_seen() -> None:
    usual = UsualTokens()

    for _ in range(4):
        usual.note("chat", 100)
    before = usual.of("chat")
    for _ in range(2):
        usual.note("chat", 100)

    assert before is None
    assert usual.of("chat") == 100


def test_what_changed_is_followed_and_what_was_is_forgotten() -> None:
    usual = UsualTokens()
    for _ in range(200):
        usual.note("chat", 1000)

    for _ in range(200):
        usual.note("chat", 100)

    average = usual.of("chat")
    assert average is not None
    assert 100 <= average < 130


def test_only_so_many_classes_are_remembered_and_the_least_recent_goes() -> None:
    usual = UsualTokens(classes_max=2)

    for name in ("one", "two", "one", "three"):
        usual.note(name, 1)

    assert len(usual) == 2
    for _ in range(6):
        usual.note("one", 7)
    assert usual.of("one") is not None


def test_a_class_is_of_a_task_a_tier_a_length_and_tools() -> None:
    one = class_of(task_class=None, tier="low", chars=5000, has_tools=False)

    assert one == class_of(task_class=None, tier="low", chars=8000, has_tools=False)
    assert one != class_of(task_class=None, tier="low", chars=50_000, has_tools=False)
    assert one != class_of(task_class="coding", tier="low", chars=5000, has_tools=False)
    assert one != class_of(task_class=None, tier="low", chars=5000, has_tools=True)

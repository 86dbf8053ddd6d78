"""The shipped ranker is read, and one that is broken is refused with the reason."""

from pathlib import Path

import pytest

from runtime.memory_ranker import MemoryRankerError, memory_ranker


def test_the_shipped_ranker_weighs_words_most_and_has_both_modes() -> None:
    ranker = memory_ranker()

    assert ranker.by_words
    assert set(ranker.by_words) < set(ranker.with_meaning)
    assert memory_ranker() is ranker


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"with_meaning": 1, "by_words": {}}', "\x00", '"x"'),
        '{"with_meaning": {"item": "heavy"}, "by_words": {}}',
        '{"with_meaning": {"nothing": 1}, "by_words": {}}',
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ranker.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(MemoryRankerError, match=r"ranker\.json"):
        memory_ranker(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MemoryRankerError, match="cannot be read"):
        memory_ranker(tmp_path / "none.json")

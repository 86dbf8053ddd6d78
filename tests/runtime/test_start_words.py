"""What a start says of a sidecar that died before it."""

import pytest

from runtime.ground import _counted


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 holds were ended"), (1, "1 hold was ended"), (2, "2 holds were ended")],
)
def test_one_is_told_as_one(count: int, said: str) -> None:
    assert _counted(count, "hold was ended", "holds were ended") == said

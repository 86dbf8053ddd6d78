"""What is remembered of a session whose group comes and goes."""

from types import SimpleNamespace
from typing import Any

import pytest

from ebpf.errors import DomainError
from ebpf.isolation import Isolator
from governor.fairness.claim import Priority
from governor.isolation import Arrangement

pytestmark = pytest.mark.anyio


class Group:
    """The group of a session, until it is removed."""

    def __init__(self) -> None:
        self.is_gone = self.is_still = False

    @property
    def exists(self) -> bool:
        return not self.is_gone

    def held_bytes(self) -> int:
        if self.is_gone:
            raise DomainError
        return 0

    def set_weight(self, weight: int) -> None:
        """Take it."""

    def protect(self, memory_bytes: int) -> None:
        """Take it."""

    def processor_wait_us(self) -> int:
        return 0

    def processor_used_us(self) -> int:
        return 0

    def freeze(self) -> None:
        self.is_still = True

    def thaw(self) -> None:
        self.is_still = False


async def test_a_session_that_is_to_stand_still_does_in_its_next_group_too() -> None:
    groups = [Group(), Group()]
    heard: list[bool] = []
    decided = SimpleNamespace(
        arrange=lambda *_, **__: Arrangement(
            weights={"low": 100}, protected_bytes={"low": 0}, frozen=frozenset({"low"})
        ),
        next_in=lambda asked, *_, **__: 0 if asked else None,
        growth_of=lambda _: 0,
    )

    def group_of(_session: str) -> Any:
        return next((one for one in groups if not one.is_gone), None)

    isolator = Isolator(
        decided,  # type: ignore[arg-type] # nothing else of a decision maker is used
        group_of=group_of,
        capacity_of=lambda _: 1,
        elapsed_ms=lambda: 0,
        stood=lambda _, *, is_still: heard.append(is_still),
    )

    async with isolator.call("low", Priority.LOW):
        groups[0].is_gone = True
        async with isolator.call("low", Priority.LOW):
            isolator._look()

            assert groups[1].is_still
            assert heard == [True, False, True]

"""The fold of the journal adds up what was booked, account by account."""

from hypothesis import given
from hypothesis import strategies as st

from memory_store.fold import Fold

ACCOUNTS = st.integers(1, 10**12)
AMOUNTS = st.integers(-(2**40), 2**40)


@given(st.lists(st.tuples(ACCOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)))
def test_each_account_stands_at_the_sum_of_what_was_booked_on_it(
    booked: list[tuple[int, int, int, int]],
) -> None:
    fold, expected = Fold(), {0: [0, 0, 0]}
    for account, settled, reserved, overrun in booked:
        fold.add(account, settled=settled, reserved=reserved, overrun=overrun)
        before = expected.get(account, [0, 0, 0])
        added = zip(before, (settled, reserved, overrun), strict=True)
        expected[account] = [old + new for old, new in added]

    assert {account: fold.of(account) for account in expected} == expected


def test_neighbours_share_little_memory() -> None:
    fold = Fold()
    for account in range(10_000):
        fold.put(account, (1, 2, 3))

    assert sum(block.itemsize * len(block) for block in fold._blocks.values()) < 30 * 10_000
    assert fold.of(9_999) == [1, 2, 3]

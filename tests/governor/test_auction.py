from hypothesis import given
from hypothesis import strategies as st

from governor.ids import TierName
from governor.learning.auction import (
    NEW_BIDDER,
    Bid,
    Prospect,
    call_for_bids,
    trust_in,
    weigh,
    winner,
)

LOW, HIGH = TierName("low"), TierName("high")
CHANCES = st.floats(0.0, 1.0)


def bid(tier: TierName = LOW, *, claimed: float = 0.8, answer: int = 1_000) -> Bid:
    return Bid(tier=tier, claimed=claimed, planned_tokens=100, answer_microusd=answer)


def prospect(tier: TierName, chance: float, cost: int, spread: float = 0.25) -> Prospect:
    return Prospect(tier=tier, chance=chance, spread=spread, cost_microusd=cost)


@given(
    chances=st.tuples(CHANCES, CHANCES),
    costs=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    price=st.integers(0, 10**6),
    trust=CHANCES,
    value=st.integers(0, 10**8),
)
def test_bids_are_asked_for_only_where_they_are_expected_to_bring_more_than_they_cost(
    chances: tuple[float, float],
    costs: tuple[int, int],
    price: int,
    trust: float,
    value: int,
) -> None:
    calling = call_for_bids(
        [prospect(LOW, chances[0], costs[0]), prospect(HIGH, chances[1], costs[1])],
        bid_microusd={LOW: price, HIGH: price},
        trust=trust,
        value_microusd=value,
    )

    assert calling.is_worth_it == (calling.gain_microusd > 2 * price)
    # However well bidders know, they cannot bring more than the whole difference of tiers.
    assert calling.gain_microusd <= value


def test_there_is_no_auction_where_one_tier_is_clearly_ahead() -> None:
    calling = call_for_bids(
        [prospect(LOW, 0.95, 100, 0.02), prospect(HIGH, 0.96, 50_000, 0.02)],
        bid_microusd={LOW: 10, HIGH: 500},
        trust=0.5,
        value_microusd=100_000,
    )

    assert not calling.is_worth_it


def test_there_is_no_auction_among_bidders_whose_word_tells_nothing() -> None:
    calling = call_for_bids(
        [prospect(LOW, 0.5, 100), prospect(HIGH, 0.5, 100)],
        bid_microusd={LOW: 1, HIGH: 1},
        trust=0.0,
        value_microusd=10**6,
    )

    assert not calling.is_worth_it


def test_bids_are_worth_it_where_tiers_are_close_and_much_is_at_stake() -> None:
    calling = call_for_bids(
        [prospect(LOW, 0.6, 1_000), prospect(HIGH, 0.7, 60_000)],
        bid_microusd={LOW: 50, HIGH: 2_000},
        trust=0.5,
        value_microusd=600_000,
    )

    assert calling.is_worth_it


def test_a_bidder_that_promises_too_much_is_believed_less() -> None:
    bidder = NEW_BIDDER
    for _ in range(100):
        bidder = bidder.scored(claimed=0.9, score=0.4)

    new = weigh(bid(claimed=0.9), NEW_BIDDER, prior=0.5, trust=0.8, value_microusd=1_000)
    known = weigh(bid(claimed=0.9), bidder, prior=0.5, trust=0.8, value_microusd=1_000)

    assert known.chance < new.chance - 0.3


def test_a_bidder_that_writes_more_than_it_plans_is_dearer_than_it_says() -> None:
    bidder = NEW_BIDDER
    for _ in range(100):
        bidder = bidder.served(planned_tokens=100, output_tokens=300)

    known = weigh(bid(answer=1_000), bidder, prior=0.5, trust=0.5, value_microusd=10)

    assert 2_500 < known.cost_microusd <= 3_000


@given(st.lists(st.tuples(CHANCES, CHANCES), max_size=40))
def test_trust_is_a_share_and_never_turned_round(claims: list[tuple[float, float]]) -> None:
    assert 0.0 <= trust_in(claims) <= 1.0


def test_word_that_comes_true_is_trusted_more_than_word_that_does_not() -> None:
    true = [(0.9, 1.0), (0.1, 0.0)] * 20
    false = [(0.9, 0.0), (0.1, 1.0)] * 20

    assert trust_in(true) > 0.6
    assert trust_in(false) == 0.0


def test_the_bid_that_is_worth_most_wins_and_of_two_alike_the_cheaper() -> None:

    low = weigh(bid(LOW), NEW_BIDDER, prior=0.5, trust=0.0, value_microusd=100_000)
    high = weigh(bid(HIGH, answer=20_000), NEW_BIDDER, prior=0.9, trust=0.0, value_microusd=100_000)
    same = weigh(
        bid(HIGH, answer=20_000), NEW_BIDDER, prior=0.69, trust=0.0, value_microusd=100_000
    )

    assert winner([low, high]).bid.tier == HIGH
    assert winner([same, low]).bid.tier == LOW

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Amounts, Unit
from governor.unified_cost import MONEY_ALONE, UnifiedPrices

AMOUNTS = st.integers(0, 10**12)


def charged(money: int, calls: int, cpu_ms: int) -> Amounts:
    return Amounts(
        {
            Unit.COST_MICROUSD: money,
            Unit.TOOL_CALLS: calls,
            Unit.CPU_MS: cpu_ms,
            Unit.INPUT_TOKENS: 5,
        }
    )


@pytest.mark.requirement("cost.unified-beside-parts")
def test_a_unified_cost_is_the_money_and_a_price_for_calls_and_processor_time() -> None:
    prices = UnifiedPrices(tool_call_microusd=100, cpu_second_microusd=20)

    assert prices.cost_microusd(charged(7, 3, 1_500)) == 7 + 300 + 30
    assert prices.cost_microusd(Amounts({})) == 0


def test_without_prices_it_is_the_money_alone() -> None:
    assert MONEY_ALONE.cost_microusd(charged(7, 3, 1_500)) == 7


@pytest.mark.requirement("price.never-favours-caller")
@given(
    money=AMOUNTS,
    calls=AMOUNTS,
    cpu_ms=AMOUNTS,
    a_call=st.integers(0, 10**9),
    a_second=st.integers(0, 10**9),
)
def test_it_is_rounded_up_once_to_a_whole_micro_dollar(
    money: int, calls: int, cpu_ms: int, a_call: int, a_second: int
) -> None:
    prices = UnifiedPrices(tool_call_microusd=a_call, cpu_second_microusd=a_second)
    exact = 1_000 * (money + calls * a_call) + cpu_ms * a_second

    unified = prices.cost_microusd(charged(money, calls, cpu_ms))

    assert exact <= 1_000 * unified < exact + 1_000

"""What a tool call used, put together from what each part of the path measured."""

from collections.abc import Mapping

from governor.account import Account, BalanceKey
from governor.amounts import NOTHING, Amounts, Unit
from governor.call import CallRecord
from governor.estimate import context_tokens
from governor.events import Settled, Warned
from governor.policy import ToolRule
from governor.tracker import used_words
from governor.unified_cost import UnifiedPrices
from governor.usage import OF_PROBES, Usage


def usage_of(
    rule: ToolRule,
    *,
    held: Amounts,
    wall_ms: int,
    text_chars: int,
    backend: Usage | None,
    unmeasurable: Mapping[Unit, str],
    price_microusd: int = 0,
) -> Usage:
    """Return the usage to settle: one call at its price, its time, its text, the backend's figures.

    `backend` is None when the call never reported; what was held for its units then stands. A
    probe's unit of which nothing was held is not named: most are assigned to no probe.
    `price_microusd` comes on top of the rule's price.
    """
    if rule.is_free:
        return Usage(measured=NOTHING)
    counted = {
        Unit.TOOL_CALLS: 1,
        Unit.COST_MICROUSD: _cost_microusd(rule, price_microusd, is_known=backend is not None),
        Unit.WALL_MS: wall_ms,
        Unit.CONTEXT_TOKENS: context_tokens(text_chars),
    }
    reported = {} if backend is None else dict(backend.measured)
    measured = Amounts({**counted, **reported})
    why_not = {
        **{unit: "the call ended before it was measured" for unit, _ in held},
        **{
            unit: why for unit, why in unmeasurable.items() if unit not in OF_PROBES or unit in held
        },
        **({} if backend is None else backend.unmeasured),
    }
    return Usage(
        measured=measured,
        unmeasured={
            unit: why
            for unit, why in why_not.items()
            if unit not in measured and unit is not Unit.TURNS
        },
        memory_peak_bytes=None if backend is None else backend.memory_peak_bytes,
        divided=() if backend is None else backend.divided,
        curve=None if backend is None else backend.curve,
    )


def _cost_microusd(rule: ToolRule, price_microusd: int, *, is_known: bool) -> int:
    """Return what the call cost: of one that never reported, what its rule had held for it."""
    if is_known or Unit.COST_MICROUSD not in rule.estimates:
        return rule.cost_microusd + price_microusd
    return rule.estimates.of(Unit.COST_MICROUSD)


def budget_meta(settled: Settled) -> list[dict[str, object]]:
    """Return what remains of each budget, as `_meta["flyball/budget"]` shows it.

    A rate is left out: it has come back by the time that somebody reads this.
    """
    warned: dict[BalanceKey, list[dict[str, int]]] = {}
    for one in settled.warned:
        told = {"permille": one.permille, "amount": one.at}
        warned.setdefault(one.balance.key, []).append(told)
    return [
        {
            "budget_id": balance.key.budget_id,
            "scope": balance.account.scope.value,
            "unit": balance.key.unit.value,
            "limit": balance.account.limit,
            "used": balance.settled,
            "reserved": balance.reserved,
            "remaining": balance.remaining,
            "starts_at_ms": _starts_at_ms(balance.account),
            "resets_at_ms": balance.account.resets_at_ms,
            **({} if balance.account.is_enforced else {"mode": "observe"}),
            **({"warned_at": warned[balance.key]} if balance.key in warned else {}),
        }
        for balance in settled.standing
        if balance.account.rate is None
    ]


def threshold_note(settled: Settled | None) -> str | None:
    """Return the line for the result of the call that reached thresholds; None without any."""
    if settled is None:
        return None
    # Of several that one call reached, the last one says it all.
    reached = {one.balance.key: one for one in settled.warned if one.balance.account.is_enforced}
    told = [_threshold_words(one) for one in reached.values()]
    return f"[budget notice: {'; '.join(told)}]" if told else None


def _threshold_words(warned: Warned) -> str:
    balance = warned.balance
    account = balance.account
    used = used_words(balance.key.unit, used=balance.settled, limit=account.limit)
    return (
        f"{warned.permille / 10:g} % of the {account.scope} budget {balance.key.budget_id} is "
        f"reached, {used}"
    )


def _starts_at_ms(account: Account) -> int | None:
    """Return when the window began; one that slides or never ends has no beginning."""
    if account.older or account.resets_at_ms is None:
        return None
    return account.key.window_start_ms


def usage_json(usage: Usage) -> dict[str, object]:
    """Return usage in its public JSON; what nobody could measure is null, with the reason."""
    shape: dict[str, object] = {**usage.measured.as_dict()}
    shape.update({unit.value: None for unit in usage.unmeasured})
    shape["memory_peak_bytes"] = usage.memory_peak_bytes
    if usage.estimated:
        shape["estimated"] = [unit.value for unit in usage.estimated]
    if usage.unmeasured:
        shape["unmeasured"] = {unit.value: why for unit, why in usage.unmeasured.items()}
    return shape


def call_json(record: CallRecord, prices: UnifiedPrices) -> dict[str, object]:
    """Return how a call ended and what it used, as `_meta["flyball/call"]` shows it."""
    shape: dict[str, object] = {"call_id": record.call_id, "status": record.status.value}
    if record.usage is not None:
        shape["usage"] = usage_json(record.usage)
        # As settlement charges it: what was measured, else what was held.
        charged = Amounts({**record.estimate.by_unit, **record.usage.measured.by_unit})
        shape["unified_cost_microusd"] = prices.cost_microusd(charged)
    if record.isolated is not None:
        found = {"energy_by": record.isolated.energy_by} if record.isolated.energy_by else {}
        shape["isolation"] = {
            "enforcement": record.isolated.enforcement.value,
            "contained": record.isolated.contained,
            "by": record.isolated.by,
            **found,
        }
    return shape

"""What an upstream says that a call cost, believed only where the operator trusts it."""

import logging

from governor.amounts import NOTHING, Amounts, Unit
from governor.usage import Usage
from tool_gateway import telemetry
from tool_gateway.results import ToolResult
from tool_gateway.upstreams.spec import UpstreamSpec

logger = logging.getLogger(__name__)

# A million dollars for one call: what is above is a mistake, and no budget survives it.
COST_MICROUSD_MAX = 10**12


def reported_usage(result: ToolResult, spec: UpstreamSpec) -> Usage:
    """Return the cost that the answer reports, as usage; nothing where it is not believed.

    Nonsense is counted and logged and never fails the call: its rule's price stands.
    """
    cost = result.reported_cost
    if cost is None:
        return Usage(measured=NOTHING)
    if not spec.trust_reported_cost:
        telemetry.count_reported_cost(upstream=spec.name, verdict="untrusted")
        return Usage(measured=NOTHING)
    if isinstance(cost, bool) or not isinstance(cost, int) or not 0 <= cost <= COST_MICROUSD_MAX:
        telemetry.count_reported_cost(upstream=spec.name, verdict="nonsense")
        logger.warning(
            "upstream %s: reported a cost of %.80r; expected an integer from 0 to %d",
            spec.name,
            cost,
            COST_MICROUSD_MAX,
        )
        return Usage(measured=NOTHING)
    telemetry.count_reported_cost(upstream=spec.name, verdict="believed")
    return Usage(measured=Amounts({Unit.COST_MICROUSD: cost}))

"""What the file says about contention, and how it is refused where it says nonsense."""

import pytest

from governor.fairness.adaptive import Adapts, Concurrency
from governor.fairness.claim import Priority
from governor.fairness.pace import Quota
from governor.fairness.shedding import Pressure
from runtime.configuration.contention import contention_of, divided
from runtime.configuration.load import parse_config
from runtime.errors import ConfigError
from tool_gateway.contention import Contention

SERVER = '[[upstream]]\nname = "files"\ncommand = ["files-server"]\n'
PROVIDER = '[[provider]]\nname = "files"\nbase_url = "http://lab.test/v1"\n'


def terms_of(text: str) -> Contention:
    config = parse_config(text, source="flyball.toml")
    return contention_of(config.contention, config.commons)


def test_an_empty_file_bounds_generously_and_sheds_only_what_is_least_wanted() -> None:
    terms = terms_of("")

    assert terms.enabled
    assert terms.gate.concurrency == Concurrency(start=64, lowest=16, highest=512)
    assert terms.thresholds.of[Priority.NORMAL] == Pressure(memory=6_000)
    assert Priority.HIGH not in terms.thresholds.of


def test_an_upstream_can_have_bounds_and_a_quota_of_its_own() -> None:
    terms = terms_of(
        SERVER
        + """
[contention]
tenant_weights = { acme = 4 }

[[contention.priority]]
agent = "pager-*"
max = "high"

[[contention.upstream]]
name = "files"
concurrency = { start = 4, min = 1, max = 8, adapts = "failures" }

[[commons]]
upstream = "files"
per_s = 10
burst = 5
"""
    )

    assert terms.gates["files"].concurrency == Concurrency(
        start=4, lowest=1, highest=8, adapts=Adapts.FAILURES
    )
    assert terms.gates["files"].quota == Quota(per_minute=600, burst=5)
    assert terms.priorities[0].highest is Priority.HIGH
    assert terms.tenant_weights == {"acme": 4}


COMMONS = '[[commons]]\nupstream = "files"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[contention]\nqueue_max = 0", "contention.queue_max = 0: "),
        ("[contention]\nqueue_max = 9", "queue_max_per_session <= queue_max_per_tenant <="),
        ("[contention]\nwait_max = 1", "did you mean 'wait_ms_max'?"),
        ("[contention.concurrency]\nmin = 99", "min <= start <= max must hold; here they are 99"),
        ('[contention.concurrency]\nadapts = "luck"', "'latency', 'failures' or 'nothing'"),
        ("[contention]\ntenant_weights = { acme = 0 }", "contention.tenant_weights.acme = 0: "),
        ("[contention.shed.low]\ncpu = 101", "contention.shed.low.cpu = 101: "),
        ('[[contention.priority]]\nusual = "high"', "usual = 'high' is above max = 'normal'"),
        ('[[contention.upstream]]\nname = "x"', "no [[upstream]] or [[provider]] is called 'x'"),
        (COMMONS + "per_s = 1", "commons: no [[upstream]] or [[provider]] is called 'files'"),
        (SERVER + PROVIDER + COMMONS + "per_s = 1", "'files' is an upstream and a provider"),
        (SERVER + COMMONS, "give exactly one of `per_s` and `per_min`"),
        (SERVER + COMMONS + "per_s = 1\nper_min = 1", "give exactly one of"),
        (SERVER + COMMONS + "per_min = 3\nburst = 4", "burst = 4 is more than a minute allows"),
        (SERVER + 2 * (COMMONS + "per_s = 1\n"), "commons: files appears twice"),
        (
            SERVER + COMMONS + "per_s = 1\n[contention]\nenabled = false",
            "contention.enabled = false switches it off",
        ),
    ],
)
def test_a_fault_is_told_with_its_key_and_the_fix(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        terms_of(text)

    assert said in str(caught.value)


def test_processes_that_share_an_upstream_keep_to_its_terms_together() -> None:
    whole = terms_of(
        """
[contention]
queue_max = 10
queue_max_per_tenant = 10
queue_max_per_session = 5
concurrency = { start = 9, min = 2, max = 12 }
"""
    )
    part = divided(whole, between=4)

    assert divided(whole, between=1) is whole
    assert part.gate.concurrency == Concurrency(start=2, lowest=1, highest=3)
    assert part.gate.queue == whole.gate.queue

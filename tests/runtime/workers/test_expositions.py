"""Metrics of several processes are one exposition, of which Prometheus can tell them apart."""

from prometheus_client.parser import text_string_to_metric_families

from runtime.workers.expositions import merged

KEEPER = """# HELP flyball_calls_total Calls that ended.
# TYPE flyball_calls_total counter
flyball_calls_total{kind="tool",said="a \\"b\\", c"} 2.0
# HELP flyball_up Whether it is up.
# TYPE flyball_up gauge
flyball_up 1.0
"""
WORKER = """# HELP flyball_calls_total Calls that ended.
# TYPE flyball_calls_total counter
flyball_calls_total{kind="tool",said="a \\"b\\", c"} 3.0
# HELP flyball_wall_ms Time.
# TYPE flyball_wall_ms histogram
flyball_wall_ms_bucket{le="+Inf"} 3.0
flyball_wall_ms_count 3.0
flyball_wall_ms_sum 1.5e3
"""


def test_every_line_says_whose_it_is_and_stands_with_its_family() -> None:
    text = merged([("keeper", KEEPER), ("w1", WORKER)])
    families = {family.name: family for family in text_string_to_metric_families(text)}
    counted = {
        (sample.labels["process"], sample.labels["said"]): sample.value
        for sample in families["flyball_calls"].samples
    }

    assert counted == {("keeper", 'a "b", c'): 2, ("w1", 'a "b", c'): 3}
    assert [sample.labels["process"] for sample in families["flyball_up"].samples] == ["keeper"]
    assert [sample.value for sample in families["flyball_wall_ms"].samples] == [3, 3, 1500]
    assert text.count("# TYPE flyball_calls_total counter") == 1

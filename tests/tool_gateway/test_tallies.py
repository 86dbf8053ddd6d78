"""Histograms that no SDK is told of: what they show is what the SDK would have shown."""

from collections.abc import Sequence
from itertools import accumulate

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram as Shown
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from tool_gateway import tallies
from tool_gateway.tallies import (
    BEYOND,
    SERIES_MAX,
    USUAL_BOUNDS,
    Histogram,
    Level,
    Seen,
    Tally,
)

LABELS = {"backend": "x"}
# Below, at, between and above the bounds.
MEASURED = (0, 0.5, 1, 4, 5, 7, 10, 16, 9_999.5, 10_000, 10_001, 1e9)


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what these tests measure out of the metrics of the process."""
    monkeypatch.setattr(tallies, "_histograms", [])


def told_by_the_sdk(measured: Sequence[float], bounds: Sequence[float] | None) -> Shown:
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    histogram = meter.create_histogram("h", explicit_bucket_boundaries_advisory=bounds)
    for value in measured:
        histogram.record(value, LABELS)
    data = reader.get_metrics_data()
    assert data is not None
    shown = data.resource_metrics[0].scope_metrics[0].metrics[0].data
    assert isinstance(shown, Shown)
    return shown


@pytest.mark.parametrize("bounds", [None, (1, 4, 16)])
def test_measurements_fall_where_the_sdk_would_put_them(bounds: tuple[int, ...] | None) -> None:
    [point] = told_by_the_sdk(MEASURED, bounds).data_points
    assert isinstance(point, HistogramDataPoint)
    histogram = Histogram("test", "h", unit="s", description="", bounds=bounds or USUAL_BOUNDS)

    for value in MEASURED:
        histogram.of(LABELS).record(value)

    [series] = histogram.series
    assert tuple(histogram.bounds) == tuple(point.explicit_bounds)
    assert series.up_to() == tuple(accumulate(point.bucket_counts))
    assert series.total == point.sum


def test_the_same_labels_in_another_order_are_one_series() -> None:
    histogram = Histogram("test", "h", unit="s", description="")

    histogram.of({"a": "1", "b": "2"}).record(1)
    histogram.of({"b": "2", "a": "1"}).record(1)
    histogram.of({"b": "1", "a": "2"}).record(1)

    assert [series.up_to()[-1] for series in histogram.series] == [2, 1]


def test_every_histogram_is_found_by_whoever_shows_them() -> None:
    histogram = Histogram("test", "h", unit="s", description="")

    assert tallies.histograms() == (histogram,)


@pytest.mark.requirement("metrics.bounded")
def test_whatever_goes_beyond_the_bound_is_added_up_in_one_series() -> None:
    meter = MeterProvider(shutdown_on_exit=False).get_meter("test")
    tally = Tally(meter, "test_bounded", ("a", "b"), description="")
    level = Level(meter, "test_bounded_level", "a", description="")
    histogram = Histogram("test", "test.bounded", unit="ms", description="")

    for number in range(SERIES_MAX + 500):
        tally.add(str(number), "x")
        level.set(str(number), number)
        histogram.of({"a": str(number)}).record(1)
    tally.add("1", "x")

    assert len(tally._counts) == SERIES_MAX + 1
    assert tally._counts[BEYOND, BEYOND] == 500
    assert tally._counts["1", "x"] == 2
    assert len(level._levels) == SERIES_MAX
    assert len(histogram.series) == SERIES_MAX + 1
    assert histogram.of({"a": BEYOND}).total == 500


def test_a_measurement_stands_for_those_of_its_size_until_the_next() -> None:
    series = Histogram("test", "test.seen", unit="ms", description="", bounds=(1, 10)).of({})
    for value in (0.5, 5, 7, 100):
        series.record(value)

    assert series.seen == (None, None, None)
    series.exemplify(5, trace_id=1, span_id=2)
    series.exemplify(7, trace_id=3, span_id=4)

    assert series.seen == [None, Seen(7, 3, 4), None]
    assert series.counts == (1, 2, 1)

"""Whether what is learned is still true: a two-sided Page-Hinkley test of a stream of residuals."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftTerms:
    """What counts as a drift.

    A mean that moves by less than `tolerance` is none. `threshold` is how far the sum of what is
    above it must get; with residuals that scatter by 0.4, twelve raise about one false alarm in
    two thousand residuals, and show a move by 0.3 after about fifty. `residuals_min` come first.
    """

    tolerance: float = 0.05
    threshold: float = 12.0
    residuals_min: int = 30


USUAL_DRIFT = DriftTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftWatch:
    """What was heard of one stream since the last drift."""

    heard: int = 0
    mean: float = 0.0
    up: float = 0.0
    down: float = 0.0
    drifts: int = 0

    def after(self, residual: float, terms: DriftTerms) -> tuple["DriftWatch", bool]:
        """Return the watch after one more residual, and whether that was the one too many.

        After a drift the watch begins anew: what is usual is learned again.
        """
        heard = self.heard + 1
        mean = self.mean + (residual - self.mean) / heard
        up = max(0.0, self.up + residual - mean - terms.tolerance)
        down = max(0.0, self.down - residual + mean - terms.tolerance)
        if heard >= terms.residuals_min and max(up, down) > terms.threshold:
            return DriftWatch(drifts=self.drifts + 1), True
        return replace(self, heard=heard, mean=mean, up=up, down=down), False

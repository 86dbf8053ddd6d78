"""What other packages can add to Flyball: guards, estimators, kinds of upstreams, notifiers."""

from runtime.plugins.protocols import (
    Allow,
    Ask,
    Deny,
    Estimator,
    Guard,
    Notifier,
    SeenCall,
    SeenResult,
    ToolServer,
    UpstreamKind,
    Verdict,
)

__all__ = [
    "Allow",
    "Ask",
    "Deny",
    "Estimator",
    "Guard",
    "Notifier",
    "SeenCall",
    "SeenResult",
    "ToolServer",
    "UpstreamKind",
    "Verdict",
]

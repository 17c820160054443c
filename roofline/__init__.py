"""How fast a run was, and of what: pure arithmetic, no I/O."""

from roofline.throughput import StageUse, ThroughputSummary

__all__ = ["StageUse", "ThroughputSummary"]

"""How fast a run was, and how fast it could have been: pure arithmetic, no I/O."""

from roofline.ceilings import Ceiling, Floor, attainable, binding, bound, floors, intensity, ridge_point
from roofline.stage_use import StageUse
from roofline.throughput import ThroughputSummary

__all__ = [
    "Ceiling",
    "Floor",
    "StageUse",
    "ThroughputSummary",
    "attainable",
    "binding",
    "bound",
    "floors",
    "intensity",
    "ridge_point",
]

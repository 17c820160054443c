"""The ceilings of this machine, measured: what its storage, codecs, memory and cores do at best.

:mod:`pipeline.ceilings.measuring` measures them. It is not loaded here, for it brings Numba along.
"""

from pipeline.ceilings.kept import keep_ceilings, kept_ceilings
from pipeline.ceilings.measured import Ceilings, MeasuredCeiling, Spread
from pipeline.ceilings.subject import Subject

__all__ = ["Ceilings", "MeasuredCeiling", "Spread", "Subject", "keep_ceilings", "kept_ceilings"]

"""The ceilings of this machine, measured: what its storage, codecs, memory and cores do at best."""

from pipeline.ceilings.kept import keep_ceilings, kept_ceilings
from pipeline.ceilings.measured import Ceilings, MeasuredCeiling, Spread
from pipeline.ceilings.measuring import measure_ceilings
from pipeline.ceilings.subject import Subject

__all__ = ["Ceilings", "MeasuredCeiling", "Spread", "Subject", "keep_ceilings", "kept_ceilings", "measure_ceilings"]

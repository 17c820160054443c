"""Looking at a cluster dataset: importing this package gives every xarray Dataset the accessor `photons`.

import analysis
from cluster_store import open_clusters

clusters = open_clusters("clusters.zarr")
clusters.photons.spectrum().plot()
"""

from analysis.accessor import PhotonsAccessor
from analysis.binning import UnevenBinsWarning
from analysis.calibration import calibrate, noise
from analysis.gain_map import gain_map
from analysis.interpolation import Interpolation
from analysis.line_fits import fit_line
from analysis.peak_top import Peak
from analysis.peaks import fit_peak
from analysis.units import UnitsWarning
from analysis.xray_lines import KLines, k_lines

__all__ = [
    "Interpolation",
    "KLines",
    "Peak",
    "PhotonsAccessor",
    "UnevenBinsWarning",
    "UnitsWarning",
    "calibrate",
    "fit_line",
    "fit_peak",
    "gain_map",
    "k_lines",
    "noise",
]

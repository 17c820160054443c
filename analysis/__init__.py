"""Looking at a cluster dataset: importing this package gives every xarray Dataset the accessor `photons`.

import analysis
from cluster_store import open_clusters

clusters = open_clusters("clusters.zarr")
clusters.photons.spectrum().plot()
"""

from analysis.accessor import PhotonsAccessor
from analysis.interpolation import Interpolation
from analysis.peaks import Peak, fit_peak

__all__ = ["Interpolation", "Peak", "PhotonsAccessor", "fit_peak"]

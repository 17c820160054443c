"""Photon clusters in detector frames.

A photon lights a few neighbouring pixels. A finder subtracts a moving pedestal from each frame, finds the windows that
rise above the noise, and returns their centres and signals. All its arithmetic is exact integers or correctly rounded
float32 in a fixed order, so that every backend, on any number of workers, gives the same bits.

    parameters = FinderParameters(n_sigma=5, cluster_size=(3, 3))
    pedestal = Pedestal.from_dark(dark, n_samples=parameters.n_samples)
    finder = open_finder("auto", parameters, shape=pedestal.shape)
    batch = finder.find(frames, pedestal)
"""

from finder.activity import PixelActivity, often_blind, often_firing, share_seldom_updated
from finder.backends import chosen_backend, open_finder
from finder.clusters import ClusterBatch, Clusters, coordinate_dtype
from finder.common_mode import CommonMode
from finder.dark_sums import DarkSums
from finder.frames import SUPPORTED_DTYPES
from finder.interface import Chain, Finder
from finder.parameters import FinderParameters
from finder.pedestal import Pedestal
from finder.recentre import recentred
from finder.rounding import rounded

__all__ = [
    "SUPPORTED_DTYPES",
    "Chain",
    "ClusterBatch",
    "Clusters",
    "CommonMode",
    "DarkSums",
    "Finder",
    "FinderParameters",
    "Pedestal",
    "PixelActivity",
    "chosen_backend",
    "coordinate_dtype",
    "often_blind",
    "often_firing",
    "open_finder",
    "recentred",
    "rounded",
    "share_seldom_updated",
]

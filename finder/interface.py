"""What every backend offers: a finder, and chains of frames that share one moving pedestal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finder.activity import PixelActivity
from finder.clusters import ClusterBatch, Clusters
from finder.device_use import DeviceUse
from finder.frames import Frames, checked_frames
from finder.parameters import FinderParameters
from finder.pedestal import Pedestal
from finder.pixel_mask import masked_pixels
from finder.products import ProductOptions, Products


class Finder(ABC):
    """A cluster finder for frames of one shape.

    Its results are the same, bit for bit, on every backend. A finder may be used from several threads at once, each
    with a chain of its own.

    Args:
        parameters: what makes a cluster.
        shape: (y, x) of the frames.
        pixel_mask: (y, x) integers, NeXus bits, any of the low 16 set = masked; or bool, True = masked.

    Raises:
        ValueError: the mask has another shape.

    Attributes:
        backend: its name, as `open_finder` takes it.
        pixel_mask: (y, x) bool, True where masked, or None where every pixel is used.
        counts: what its chains count of their clusters themselves; of most backends, nothing.
    """

    backend: ClassVar[str]
    counts: ProductOptions = ProductOptions()

    def __init__(
        self, parameters: FinderParameters, shape: tuple[int, int], pixel_mask: ArrayLike | None = None
    ) -> None:
        rows, cols = (int(side) for side in shape)
        if rows < 1 or cols < 1:
            raise ValueError(f"the frames' shape (y, x) is {shape!r}; a frame needs at least one pixel")
        self.parameters = parameters
        self.shape = (rows, cols)
        self.pixel_mask: NDArray[np.bool_] | None = None
        if pixel_mask is not None and (masked := masked_pixels(pixel_mask, self.shape)).any():
            self.pixel_mask = masked

    def find(self, frames: ArrayLike, pedestal: Pedestal) -> ClusterBatch:
        """The clusters of `frames` (frame, y, x), and the pedestal after the last; `pedestal` is untouched.

        Handing the result's pedestal to the next call continues the chain exactly.

        Raises:
            TypeError: the frames are not integers of a supported type.
            ValueError: the frames or the pedestal have another shape or memory than the finder.
        """
        chain = self.chain(pedestal)
        found = chain.find(frames)
        return ClusterBatch(found.frame_index, found.y, found.x, found.signal, found.n_clusters, chain.pedestal)

    def chain(self, pedestal: Pedestal, tracking: bool = True) -> Chain:
        """A new chain of frames that starts from `pedestal`.

        Args:
            pedestal: where to start from; it is untouched.
            tracking: whether the frames move the pedestal. Without, every frame is searched with the pedestal given.

        Raises:
            ValueError: the pedestal has another shape or n_samples than the finder.
        """
        if pedestal.shape != self.shape:
            raise ValueError(f"the pedestal has the shape {pedestal.shape}; the frames have (y, x) = {self.shape}")
        if pedestal.n_samples != self.parameters.n_samples:
            raise ValueError(
                f"the pedestal was made for n_samples {pedestal.n_samples}, the finder for "
                f"{self.parameters.n_samples}: make both the same"
            )
        return self._open_chain(pedestal, tracking)

    @abstractmethod
    def _open_chain(self, pedestal: Pedestal, tracking: bool) -> Chain:
        """A chain from a pedestal that fits."""


class Chain(ABC):
    """Frames in sequence, each moving the pedestal for the next. Belongs to one thread at a time.

    Attributes:
        tracking: whether frames move the pedestal.
    """

    def __init__(self, shape: tuple[int, int], tracking: bool) -> None:
        self._shape = shape
        self.tracking = tracking

    def find(self, frames: ArrayLike) -> Clusters:
        """The clusters of the chain's next frames (frame, y, x); `frame_index` counts from 0 in each call.

        Raises:
            TypeError: the frames are not integers of a supported type.
            ValueError: the frames have another shape than the finder.
        """
        return self._find(checked_frames(frames, self._shape))

    @abstractmethod
    def _find(self, frames: Frames) -> Clusters:
        """The clusters of checked frames."""

    def count(self, frames: ArrayLike) -> NDArray[np.uint32]:
        """How many clusters the chain's next frames have, (frame) uint32: as `find`, where the clusters aren't wanted.

        Raises:
            TypeError, ValueError: as `find` does.
        """
        return self._count(checked_frames(frames, self._shape))

    def _count(self, frames: Frames) -> NDArray[np.uint32]:
        return self._find(frames).n_clusters

    def update(self, frames: ArrayLike) -> None:
        """Let the chain's next frames (frame, y, x) move the pedestal as `find` would, without looking for clusters.

        They don't count in `activity`. Without tracking they do nothing.

        Raises:
            TypeError, ValueError: as `find` does.
        """
        checked = checked_frames(frames, self._shape)
        if self.tracking:
            self._update(checked)

    @abstractmethod
    def _update(self, frames: Frames) -> None:
        """Move the pedestal by checked frames."""

    @property
    def products(self) -> Products:
        """What the finder's `counts` has counted in the frames given to `find` and `count` so far: a copy.

        Raises:
            SignalRangeError: a cluster has a value that fits no int32.
        """
        return Products.zeros(ProductOptions(), self._shape)

    @property
    def device_use(self) -> DeviceUse:
        """What all frames given so far took of a GPU."""
        return DeviceUse()

    @property
    @abstractmethod
    def activity(self) -> PixelActivity:
        """How often each pixel was quiet, fired, or was blind in the frames given to `find` so far: a copy."""

    @property
    @abstractmethod
    def pedestal(self) -> Pedestal:
        """The pedestal now, after the last frame: a copy."""

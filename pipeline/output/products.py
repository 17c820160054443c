"""What the client adds up of a run's products, kept beside the dataset so that a broken-off run can go on.

Counts of batches add up to the same in any order, but a sum does not tell what is in it. So the file that holds it also
says of which batches it is: a batch is in the sum once, however often it is found.
"""

from __future__ import annotations

import contextlib
import io
import time
import zipfile
from collections.abc import Collection, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster_store import Column, Table
from finder.products import ProductOptions, Products
from object_stores import StoreFaultError
from pipeline.output.side_folder import SideFolder

FILE_NAME = "products.npz"
# What is lost of the sum with a client that is killed, and has to be found again.
SECONDS_BETWEEN_SAVES = 10.0


class ProductTotals:
    """The sum of the products of all batches of a run so far.

    Args:
        options: What is counted.
        frame_shape: Rows and columns of the detector.
        folder: Where the sum is kept; it exists by the first `save`.
        origin: The run that began it: a sum of another is not gone on with.
    """

    def __init__(self, options: ProductOptions, frame_shape: tuple[int, int], folder: SideFolder, origin: str) -> None:
        self._options = options
        self._frame_shape = frame_shape
        self._folder = folder
        self._origin = origin
        self._saved = time.monotonic()
        self.clear()

    @property
    def batches(self) -> Set[int]:
        """The batches that are in the sum."""
        return self._batches

    def clear(self) -> None:
        """Begin anew with no batch; the file stays as it is until `save`."""
        self.products = Products.zeros(self._options, self._frame_shape)
        self._batches: set[int] = set()

    def add(self, batch: int, products: Products) -> None:
        """Add a batch, unless it is in the sum already; now and then, the sum is saved."""
        if batch not in self._batches:
            self.products.add(products)
            self._batches.add(batch)
            if time.monotonic() - self._saved > SECONDS_BETWEEN_SAVES:
                self.save()

    def save(self) -> None:
        """Write the sum to its file, whole or not at all.

        Raises:
            OSError: It can't be written.
        """
        if not self._options.names:
            return
        file = io.BytesIO()
        np.savez(
            file,
            origin=np.array(self._origin),
            batches=np.array(sorted(self._batches), np.int64),
            spectrum=self.products.spectrum,
            hit_map=self.products.hit_map,
            eta=self.products.eta,
        )
        self._folder.replace(FILE_NAME, file.getvalue())
        self._saved = time.monotonic()

    def load(self, known: Collection[int]) -> None:
        """Take up the sum that an earlier run left, if there is one that is whole, of the same kind and origin.

        Args:
            known: The batches of which something is known; a sum with any other in it is left alone.
        """
        self.clear()
        try:
            content = self._folder.read(FILE_NAME)
        except StoreFaultError:
            raise
        except OSError:
            return
        with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            # Whatever is wrong with the file, no batch is in it.
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                found = {name: np.asarray(archive[name]) for name in archive.files}
            products = Products(found["spectrum"], found["hit_map"], found["eta"])
            batches = set(found["batches"].tolist())
            is_ours = str(found["origin"]) == self._origin and batches <= set(known)
            if is_ours and [_form(array) for array in products.arrays] == [
                _form(array) for array in self.products.arrays
            ]:
                self.products, self._batches = products, batches


def products_table(products: Products, options: ProductOptions) -> Table:
    """The products as xarray opens them from the dataset's group `products`.

    Returns:
        `spectrum` (energy), `hit_map` (y, x), `eta` (eta_y, eta_x), int64, of those that were counted.
    """
    columns: dict[str, Column] = {}
    if "spectrum" in options.names:
        bins = options.spectrum
        counts = products.spectrum
        attrs = {
            "long_name": f"clusters per {bins.width} ADU",
            "units": "count",
            "bin_width": bins.width,
            "below": int(counts[-2]),
            "above": int(counts[-1]),
        }
        columns["spectrum"] = Column(("energy",), counts[:-2], attrs)
        columns["energy"] = _axis("energy", bins.centres, "cluster energy", "ADU")
    if "hitmap" in options.names:
        columns["hit_map"] = Column(("y", "x"), products.hit_map, {"long_name": "clusters a pixel", "units": "count"})
        for dim, side, meaning in zip(("y", "x"), products.hit_map.shape, ("row", "column"), strict=True):
            columns[dim] = _axis(dim, np.arange(side), meaning, "pixel")
    if "eta" in options.names:
        n = options.eta_bins
        attrs = {
            "long_name": "clusters a bin of eta 2x2",
            "units": "count",
            "eta": "2x2",
            "eta_range": [-0.25, 1.25],
            "outside": int(products.eta[-1]),
        }
        columns["eta"] = Column(("eta_y", "eta_x"), products.eta[:-1].reshape(n, n), attrs)
        centres = -0.25 + 1.5 * (np.arange(n) + 0.5) / n
        for dim, along in (("eta_y", "rows"), ("eta_x", "columns")):
            columns[dim] = _axis(dim, centres, f"eta along {along}")
    return Table(columns)


def _axis(dim: str, values: npt.NDArray[Any], long_name: str, units: str = "") -> Column:
    return Column((dim,), values, {"long_name": long_name} | ({"units": units} if units else {}))


def _form(array: npt.NDArray[Any]) -> tuple[tuple[int, ...], str]:
    return array.shape, array.dtype.str

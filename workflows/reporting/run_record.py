"""What a report is made from: a dataset, what its run kept of its time, and the results of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray as xr

from cluster_store import FrameStatus, dataset_status, open_dataset, read_attributes, read_table
from frame_archive import location_of
from object_stores import is_url
from workflows.dataset_pictures import Counted, count
from workflows.kept_account import kept_account
from workflows.reporting import batch_table
from workflows.reporting.bench_results import BenchResults, read_bench
from workflows.run_figures import stages_at_work


class AbsentError(ValueError):
    """There is nothing measured to show; the message says in a sentence what is missing and how to get it."""


@dataclass(frozen=True)
class RunRecord:
    """A finished run.

    Args:
        path: Path or address of the dataset.
        clusters: It, opened.
        attrs: Its attributes.
        account: Stages, ceilings, and where the time went (:meth:`roofline.accounting.Account.as_dict`), or nothing.
        batches: The group ``batches``, in memory; None without one.
        products: The group ``products``; None without one.
        bench: What a benchmark wrote; None without one.
    """

    path: str
    clusters: xr.Dataset
    attrs: dict[str, Any]
    account: dict[str, Any] = field(default_factory=dict)
    batches: xr.Dataset | None = None
    products: xr.Dataset | None = None
    bench: BenchResults | None = None

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.path.rpartition("/")[2]

    @property
    def n_frames(self) -> int:
        """Frames of the dataset."""
        return int(self.clusters.sizes["frame"])

    @property
    def n_clusters(self) -> int:
        """Clusters in it, listed or only counted."""
        return int(self.clusters["n_clusters"].sum(dtype="int64"))

    @property
    def clusters_a_frame(self) -> float | None:
        """Mean number of clusters in a frame, those of skipped batches not counted; None without frames."""
        done = int((self.clusters["frame_status"] == FrameStatus.OK).sum())
        return self.n_clusters / done if done else None

    @property
    def is_listed(self) -> bool:
        """Whether the dataset has a list of its clusters."""
        return "cluster" in self.clusters.sizes

    @cached_property
    def counted(self) -> Counted:
        """Hit map, spectrum and eta, as far as there are."""
        return count(self.clusters, self.products)

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns of the window around a photon."""
        rows, columns = self.attrs["cluster_size"]
        return int(rows), int(columns)

    @property
    def stages(self) -> dict[str, dict[str, Any]]:
        """What each stage did, by name; empty if that was not kept."""
        return stages_at_work(self.account)

    @property
    def decoded_bytes(self) -> int | None:
        """Bytes of the run's frames, those before a batch too; None if that was not kept.

        Other stages may move more: of chunks larger than a batch more is read, and of large windows more is written.
        """
        stages: dict[str, dict[str, Any]] = self.account.get("stages", {})
        return next((stage["nbytes"] for name, stage in stages.items() if "decode" in name), None)

    @property
    def ceilings(self) -> list[dict[str, Any]]:
        """The machine's ceilings that were measured when the run was made."""
        kept = self.account.get("ceilings") or {"ceilings": []}
        return [ceiling for ceiling in kept["ceilings"] if ceiling["one_core"] is not None]

    def require_stages(self) -> dict[str, dict[str, Any]]:
        """The stages.

        Raises:
            AbsentError: The dataset does not know them, or no frame came through them.
        """
        if not self.stages:
            raise AbsentError("The dataset does not say how long its stages took: process the archive again.")
        if not self.account["frames"]:
            raise AbsentError("Of the run's frames none is in the dataset.")
        return self.stages

    def require_batches(self) -> xr.Dataset:
        """The table of the batches of the run that made the dataset complete.

        Raises:
            AbsentError: There is none, or it can't be read.
        """
        if self.batches is None or "began" not in self.batches:
            raise AbsentError("The dataset has no table of its batches: process the archive again.")
        if not self.batches.sizes.get("batch"):
            raise AbsentError("The run had no batches.")
        if not batch_table.is_whole(self.batches):
            raise AbsentError("The dataset's table of its batches is damaged: process the archive again.")
        return batch_table.of_last_run(self.batches, self.attrs)


def read_run(path: str, bench: str | None) -> RunRecord:
    """Open a dataset and what belongs to it.

    Raises:
        ValueError: It is not a complete dataset, or the benchmark's results can't be read.
    """
    if not path:
        raise ValueError("the path of the dataset is empty: name what photonflow process wrote")
    status = dataset_status(path)
    if status != "complete":
        why = {"running": "is not finished: wait for its run, or go on with it (--resume)"}
        absent = not is_url(path) and not Path(path).exists()
        other = (
            "is not there: see that the path is right" if absent else "is no cluster dataset: name what process wrote"
        )
        what = why.get(status, other)
        raise ValueError(f"{path} {what}; a report is made of a complete dataset")
    attrs = read_attributes(path)
    return RunRecord(
        path=location_of(path),
        clusters=open_dataset(path),
        attrs=attrs,
        account=kept_account(attrs),
        batches=read_table(path, "batches"),
        products=read_table(path, "products"),
        bench=None if bench is None else read_bench(bench),
    )

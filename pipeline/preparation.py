"""Everything that is checked, and everything that is decided, before a run begins; nothing is written here."""

from __future__ import annotations

import operator
import os
import tempfile
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cluster_store import DatasetLayout, dataset_status, require_replaceable
from finder import FinderParameters, Pedestal, chosen_backend
from finder.dark_clip import checked_clip
from finder.products import ProductCounter, ProductOptions
from frame_archive import ArchiveAddress, FrameArchive, location_of
from guarded_zarr import enclosing_store
from object_stores import ObjectAddress, Objects, answer, is_url
from pipeline.batches.chain_start import ChainOptions
from pipeline.batches.plan import BatchPlan
from pipeline.inputs.detector_gain import gain_bits_of_run
from pipeline.inputs.locations import relation
from pipeline.inputs.pedestal_source import DarkFrames, PedestalSource, find_pedestal
from pipeline.inputs.pixel_masks import combined_mask
from pipeline.output.ownership import being_written, living_writer, require_lock_place
from pipeline.resuming.journal import require_journal_place

BLOCK_BYTES = 8 << 20
"""Frames are read and searched in blocks of about so many bytes, small enough to stay in a core's share of cache."""

SIGNAL_DTYPES = ("int32", "float32")
TRACKINGS = ("batch", "chain", "off")
ON_BAD_BATCH = ("fail", "skip")


@dataclass(frozen=True)
class RunOptions:
    """What a user asks of a run; the command line's options and the arguments of :func:`pipeline.process`.

    Args:
        archive: Path or address of the frame archive.
        out: Path or address of the dataset; None puts it beside the archive, ``x.zarr`` giving ``x.clusters.zarr``.
        parameters: What the finder is told.
        backend: Which finder: ``auto``, ``cpu``, ``cuda`` or ``reference``.
        batch_size: Frames of a batch. Each starts from the trained pedestal, so the batch size is part of the result.
        frames: The frames to process, ``(start, stop)``, half-open; None at either side is the archive's end.
        frames_path: The array of frames inside the archive, where it isn't obvious.
        missing_chunks: ``error``, or ``fill``: chunks that the archive lacks are its fill value.
        pedestal: See :func:`pipeline.inputs.pedestal_source.find_pedestal`.
        dark_clip: Values of the darks so many noise widths from their pixel's mean are left out; None leaves out none.
        gain_bits: Bits above the value in the detector's 16-bit words; None: what `parameters` say, and if they say
            nothing, what the archive says.
        mask: See :func:`pipeline.inputs.pixel_masks.combined_mask`.
        signal_dtype: ``int32`` (rounded half away from zero) or ``float32``, in ADU.
        products: What to count of the clusters, whether they are listed or not.
        clusters: Whether to list the clusters.
        tracking: ``batch``: each batch starts from the trained pedestal. ``chain``: batches are found in order, each
            from where the last one ended. ``off``: every frame meets the trained pedestal.
        warmup: Frames before each batch that move its pedestal first, as many as the archive has.
        recentre: Frames at the start of each batch that its pedestal is moved to before it begins; 0 is none.
        on_bad_batch: ``fail``: stop at the first batch that fails after its retries. ``skip``: mark its frames, go on.
        resume: Go on with what an earlier run left at ``out``.
        verify: Note a digest of each batch's frames; with ``resume``, read the frames of finished batches again and
            compare, instead of going by the sizes and times of their files.
        overwrite: Replace an earlier dataset of photonflow's at ``out``.
        command: What was called, for the dataset's history.
    """

    archive: str
    out: str | None = None
    parameters: FinderParameters = field(default_factory=FinderParameters)
    backend: str = "auto"
    batch_size: int = 2000
    frames: tuple[int | None, int | None] = (None, None)
    frames_path: str | None = None
    missing_chunks: Literal["error", "fill"] = "error"
    pedestal: str | Pedestal | None = None
    dark_clip: float | None = None
    gain_bits: int | None = None
    mask: str | npt.NDArray[Any] | None = None
    signal_dtype: str = "int32"
    products: ProductOptions = field(default_factory=ProductOptions)
    clusters: bool = True
    tracking: str = "batch"
    warmup: int = 0
    recentre: int = 0
    on_bad_batch: Literal["fail", "skip"] = "fail"
    resume: bool = False
    verify: bool = False
    overwrite: bool = False
    command: str = "pipeline.process(...)"

    def __post_init__(self) -> None:
        # Numbers as NumPy counts them are as good as Python's.
        try:
            frames = tuple(None if side is None else operator.index(side) for side in self.frames)
            for name in ("batch_size", "warmup", "recentre"):
                object.__setattr__(self, name, operator.index(getattr(self, name)))
        except TypeError as error:
            raise ValueError(f"batch_size, frames, warmup and recentre are whole numbers: {error}") from error
        if len(frames) != 2:
            raise ValueError(f"frames is {self.frames!r}: give (start, stop), half-open")
        object.__setattr__(self, "frames", frames)


@dataclass(frozen=True)
class PreparedRun:
    """A run that can begin.

    Args:
        options: What was asked.
        archive: The archive, open.
        out: Absolute path of the dataset.
        plan: The batches.
        layout: The layout of the dataset.
        pixel_mask: NeXus bits (y, x), or None.
        pedestal: Where the pedestal comes from.
        backend: The finder's backend that ``auto`` came to.
    """

    options: RunOptions
    archive: FrameArchive
    out: str
    plan: BatchPlan
    layout: DatasetLayout
    pixel_mask: npt.NDArray[np.uint32] | None
    pedestal: PedestalSource
    backend: str


def prepare(options: RunOptions) -> PreparedRun:
    """Check all that can be checked before work begins.

    Raises:
        ValueError: Something in the options, the archive, the pedestal or the mask is wrong; one sentence says what,
            where, and what to do.
        FileExistsError: There is something at the output's place that may not be overwritten.
        OSError: The output's place can't be written to.
    """
    for name, known in (("signal_dtype", SIGNAL_DTYPES), ("tracking", TRACKINGS), ("on_bad_batch", ON_BAD_BATCH)):
        if getattr(options, name) not in known:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} {getattr(options, name)} is none of {', '.join(known)}")
    if options.resume and options.overwrite:
        raise ValueError("--resume goes on with what is there and --overwrite replaces it: give one of them")
    _check_chains(options)
    if options.batch_size < 1:
        raise ValueError(f"a batch of {options.batch_size} frames was asked for: the batch size is at least 1")
    given = location_of(options.archive)
    require_no_dataset(given, "process")
    if not options.clusters and not options.products.names:
        raise ValueError("--no-clusters leaves nothing of the clusters: say what to count with --products")
    ProductCounter(options.products, (1, 1), options.parameters.cluster_size)  # refuses windows that have no eta
    archive = ArchiveAddress(given, options.frames_path, options.missing_chunks).open()
    options = _with_gain_bits(options, archive)
    pixel_mask = combined_mask(options.mask, archive)
    backend = chosen_backend(options.backend)
    pedestal = find_pedestal(options.pedestal, archive, options.parameters.n_samples)
    if options.dark_clip is not None:
        checked_clip(options.dark_clip)
        if not isinstance(pedestal, DarkFrames):
            raise ValueError(f"--dark-clip is for darks, and the pedestal ({pedestal}) is ready: leave it out")
    first, stop = _frame_range(options, archive, pedestal)
    plan = BatchPlan(first, stop, options.batch_size)
    out = _output(options, archive)
    _require_all_chunks(archive, _chain_options(options, pedestal).first_of(plan[0]), stop)
    layout = DatasetLayout(
        n_frames=plan.n_frames,
        first_frame=first,
        batch_size=options.batch_size,
        frame_shape=archive.frame_shape,
        cluster_size=options.parameters.cluster_size,
        signal_dtype=options.signal_dtype,
        cluster_list=options.clusters,
    )
    return PreparedRun(options, archive, out, plan, layout, pixel_mask, pedestal, backend)


def chain_options(prepared: PreparedRun) -> ChainOptions:
    """How the chains of a run start."""
    return _chain_options(prepared.options, prepared.pedestal)


def _chain_options(options: RunOptions, pedestal: PedestalSource) -> ChainOptions:
    # Frames that the pedestal was trained on don't warm it up.
    darks = pedestal.n_frames if isinstance(pedestal, DarkFrames) and pedestal.array == "frames" else 0
    return ChainOptions(options.tracking != "off", options.warmup, options.recentre, darks)


def _with_gain_bits(options: RunOptions, archive: FrameArchive) -> RunOptions:
    """The options with the gain bits that hold, in the finder's parameters."""
    wanted = options.parameters.gain_bits or None if options.gain_bits is None else options.gain_bits
    gain_bits = gain_bits_of_run(wanted, archive)
    if gain_bits == options.parameters.gain_bits:
        return options
    return replace(options, parameters=options.parameters.with_gain_bits(gain_bits))


def _check_chains(options: RunOptions) -> None:
    for name in ("warmup", "recentre"):
        if getattr(options, name) < 0:
            raise ValueError(f"--{name} {getattr(options, name)}: give a number of frames, 0 for none")
        if getattr(options, name) and options.tracking == "chain":
            raise ValueError(
                f"--{name} is for batches that start anew, and with --tracking chain each goes on from the last one: "
                "give one of them"
            )
    if options.tracking == "off" and options.warmup:
        raise ValueError("--warmup moves the pedestal and --tracking off keeps it: give one of them")


def require_no_dataset(given: str, command: str) -> None:
    """Make sure that what is given as an archive is not what was made of one.

    Args:
        given: Where it is.
        command: What was to be done with it.

    Raises:
        ValueError: It is a cluster dataset, or lies in one.
    """
    place = enclosing_store(given) or given  # An array of a dataset has the looks of frames.
    if dataset_status(place) in ("running", "complete"):
        raise ValueError(
            f"{place} is a cluster dataset already: `photonflow inspect` says what is in it; give `{command}` "
            "an archive of frames"
        )


def default_output(archive: str) -> str:
    """Where the dataset of an archive goes when nothing else is said: ``x.zarr`` gives ``x.clusters.zarr``.

    Raises:
        ValueError: The archive is on a web server, where nothing can be written.
    """
    if is_url(archive) and ObjectAddress.parse(archive).is_web:
        raise ValueError(f"{archive} is on a web server, beside which nothing can be written: give --out a place")
    folder, slash, name = archive.rpartition("/")
    return folder + slash + name.removesuffix(".zarr") + ".clusters.zarr"


def _frame_range(options: RunOptions, archive: FrameArchive, pedestal: PedestalSource) -> tuple[int, int]:
    wanted_first, wanted_stop = options.frames
    first = wanted_first or 0
    stop = archive.n_frames if wanted_stop is None else wanted_stop
    if not 0 <= first < stop <= archive.n_frames:
        raise ValueError(
            f"--frames {first}:{stop} is out of range: {options.archive} has the frames 0:{archive.n_frames}"
        )
    if isinstance(pedestal, DarkFrames) and pedestal.array == "frames":
        # Frames that the pedestal was trained on are darks, not data.
        first = max(first, pedestal.n_frames)
        if first >= stop:
            raise ValueError(
                f"--pedestal first:{pedestal.n_frames} takes all frames of --frames {wanted_first or 0}:{stop}: "
                "choose frames after them"
            )
    return first, stop


def _output(options: RunOptions, archive: FrameArchive) -> str:
    if options.out == "":
        raise ValueError("--out is empty: give the place of the dataset, or leave the option out")
    out = location_of(options.out or default_output(archive.address.path))
    _require_writable_kind(out)
    sources = {"archive": archive.address.path, "pedestal": options.pedestal, "mask": options.mask}
    for name, path in sources.items():
        if not isinstance(path, str) or not (is_url(path) or Path(path).exists()):
            continue
        lies = relation(out, path)
        if lies == "same":
            raise ValueError(f"the output {out} is the {name} itself: give --out another place")
        if lies == "inside":
            raise ValueError(f"the output {out} lies inside the {name} {path}: give --out another place")
        if lies == "around":
            raise ValueError(f"the {name} {path} lies inside the output {out}: give --out another place")
    if (store := enclosing_store(out)) is not None:
        raise ValueError(f"the output {out} lies inside the Zarr store {store}: give --out another place")
    status = dataset_status(out)
    if status == "foreign":
        raise FileExistsError(
            f"{out} exists and is not a dataset of photonflow's, so it is left alone: give --out another place"
        )
    if (writer := living_writer(out)) is not None:
        raise being_written(out, writer)
    if status != "absent" and not options.overwrite and not options.resume:
        unfinished = " (of a run that did not finish)" if status == "running" else ""
        go_on = "--resume to go on with it, " if status == "running" else ""
        raise FileExistsError(
            f"{out} exists{unfinished}: give {go_on}--overwrite to replace it, or --out another place"
        )
    if not options.resume:
        require_replaceable(out)
    require_lock_place(out)
    require_journal_place(out)
    _require_writable(out)
    return out


def _require_writable_kind(out: str) -> None:
    if not is_url(out):
        return
    address = ObjectAddress.parse(out)
    Objects(address).require_writable()
    if not address.key:
        raise ValueError(f"the output {out} is a whole bucket, and files lie beside it: give {out}/x.clusters.zarr")


def _require_writable(out: str) -> None:
    """Try to write where the output will be, for permissions alone don't tell (a read-only mount, a quota)."""
    if is_url(out):
        probe = Objects.at(f"{out}.probe")
        name = uuid.uuid4().hex
        answer(probe.put(name, b""))
        answer(probe.delete(name))
        return
    parent = next(parent for parent in Path(out).parents if parent.exists())
    try:
        if not parent.is_dir():
            raise NotADirectoryError(20, os.strerror(20), str(parent))
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise OSError(
            f"{out} can't be written: {parent}: {error.strerror}; give --out a place that can be written"
        ) from error


def _require_all_chunks(archive: FrameArchive, first: int, stop: int) -> None:
    if archive.address.missing_chunks == "fill":
        return
    missing = archive.missing_chunks(first, stop)
    if missing:
        more = " and others" if len(missing) > 1 else ""
        raise ValueError(
            f"{archive.address.path} lacks the chunk {missing[0]}{more}: copy the archive again, choose other "
            "--frames, or give --missing-chunks fill if its writer left out chunks of nothing but fill values"
        )

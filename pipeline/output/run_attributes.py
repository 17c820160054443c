"""What a dataset's attributes say of the run that made it."""

from __future__ import annotations

from typing import Any

from cluster_store import dataset_status, read_attributes
from pipeline.inputs.dark_training import TrainedPedestal
from pipeline.output import provenance, run_history
from pipeline.output.redaction import redacted
from pipeline.preparation import PreparedRun


def run_attributes(prepared: PreparedRun, trained: TrainedPedestal) -> dict[str, Any]:
    """The attributes of a dataset, as far as they are known before the first batch."""
    options, parameters = prepared.options, prepared.options.parameters
    attributes = {
        "source": f"photonflow, {prepared.backend} finder",
        "n_sigma": parameters.n_sigma,
        "n_samples": parameters.n_samples,
        "noise": parameters.noise,
        "common_mode": str(parameters.common_mode or "off"),
        "gain_bits": parameters.gain_bits,
        "tracking": options.tracking,
        "warmup": options.warmup,
        "recentre": options.recentre,
        "pedestal": redacted(str(prepared.pedestal)),
        "archive": redacted(prepared.archive.address.path),
        "archive_fingerprint": prepared.archive.fingerprint,
        "masked_pixels": 0 if prepared.pixel_mask is None else int(((prepared.pixel_mask & 0xFFFF) != 0).sum()),
        "versions": provenance.versions(),
        "host": provenance.host(),
        "device": provenance.cpu_model(),
    }
    if options.products.names:
        attributes["products"] = options.products.in_words()
    left_out = trained.left_out
    if left_out is not None and options.dark_clip is not None:
        attributes |= {
            "dark_clip": options.dark_clip,
            "dark_values": left_out.n_values,
            "dark_values_clipped": left_out.clipped,
        }
    if left_out is not None and parameters.gain_bits:
        attributes["dark_values_switched"] = left_out.switched
    if trained.untrained is not None:
        attributes["untrained_pixels"] = int(trained.untrained.sum())
    return attributes


def history_of(prepared: PreparedRun, run_id: str) -> dict[str, str]:
    """The attributes that tell of each run that worked on the dataset, with one that begins, or goes on, now."""
    options = prepared.options
    goes_on = options.resume and dataset_status(prepared.out) in ("running", "complete")
    return run_history.begun(run_id, options.command, read_attributes(prepared.out) if goes_on else None)

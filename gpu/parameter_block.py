"""What varies from chunk to chunk, as the kernels read it: `ParameterBlock` of kernels/layout.cuh, field by field."""

from __future__ import annotations

import numpy as np

PARAMETER_BLOCK = np.dtype(
    [
        ("n_frames", np.uint32),
        ("counted", np.uint32),
        ("tracked", np.uint32),
        ("capacity", np.uint32),
        ("inverse_n_samples", np.float32),
        ("squared_n_sigma", np.float32),
        ("gain_shift", np.int32),
        ("listed", np.uint32),
        ("s1", np.uint64, 2),
        ("s2", np.uint64, 2),
        ("x0", np.uint64),
        ("trained_variance", np.uint64),
        ("updated", np.uint64),
        ("blind", np.uint64),
        ("centres", np.uint64),
        ("switched", np.uint64),
        ("clusters", np.uint64),
        ("spectrum", np.uint64),
        ("eta", np.uint64),
        ("too_large", np.uint64),
        ("spectrum_low", np.int64),
        ("spectrum_width", np.int64),
        ("spectrum_bins", np.uint32),
        ("eta_bins", np.uint32),
    ]
)

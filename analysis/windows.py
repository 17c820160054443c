"""What one cluster's window holds: its sum, its largest 2×2, its centre, its brightest pixels.

Every function takes windows (cluster, cluster_y, cluster_x) and returns one float64 a cluster. Integer windows are
summed in exact integers, others in float64 row by row, so that the answer depends on the one window alone.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.compiled import Kernel

Windows = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

CORNERS = ("low_y_low_x", "low_y_high_x", "high_y_low_x", "high_y_high_x")
"""On which sides of the central pixel the largest 2×2 lies, by its number: 0 to 3."""


def sums(signal: Windows) -> Floats:
    """The sum over the window."""
    out = np.empty(len(signal))
    _sums(*_flat(signal), out)
    return out


def centres(signal: Windows) -> Floats:
    """The central pixel."""
    require_centre("the central pixel", signal.shape[1:])
    rows, columns = signal.shape[1:]
    return signal[:, rows // 2, columns // 2].astype(np.float64)


def largest_2x2(signal: Windows) -> tuple[Floats, npt.NDArray[np.uint8]]:
    """The largest sum of the four 2×2 squares that hold the central pixel, and which one it is.

    Returns:
        The sum, and its place in `CORNERS`; of equal ones the first.

    Raises:
        ValueError: Windows of fewer than three rows or columns.
    """
    require_3x3("the largest 2×2", signal.shape[1:])
    out, corner = np.empty(len(signal)), np.empty(len(signal), np.uint8)
    if len(signal):
        _largest_2x2(np.ascontiguousarray(signal), _zero(signal), out, corner)
    return out, corner


def brightest(signal: Windows, n: int) -> Floats:
    """The sum of the `n` brightest pixels of the window.

    Raises:
        ValueError: `n` below 1 or above the number of pixels.
    """
    area = int(np.prod(signal.shape[1:]))
    if not 1 <= n <= area:
        raise ValueError(f"n is {n}; a window of {signal.shape[1]}×{signal.shape[2]} pixels has 1 to {area} brightest.")
    flat, zero = _flat(signal)
    out = np.empty(len(signal))
    _brightest(flat, zero, n, np.empty(n, flat.dtype), out)
    return out


def above(signal: Windows, y: npt.NDArray[Any], x: npt.NDArray[Any], threshold: Floats) -> npt.NDArray[np.uint8]:
    """How many pixels of the window lie above their own threshold, a map (y, x)."""
    out = np.empty(len(signal), np.uint8)
    if len(signal):
        _above(np.ascontiguousarray(signal), y, x, threshold, out)
    return out


def above_noise(signal: Windows, y: npt.NDArray[Any], x: npt.NDArray[Any], limit: Floats) -> npt.NDArray[np.bool_]:
    """Centre, largest 2×2 and sum above 1, 2 and √(pixels) times the central pixel's limit, of a map (y, x)."""
    out = np.empty(len(signal), np.bool_)
    if len(signal):
        root = float(np.sqrt(np.prod(signal.shape[1:])))
        _above_noise(np.ascontiguousarray(signal), y, x, limit, root, _zero(signal), out)
    return out


def scaled(signal: Windows, y: npt.NDArray[Any], x: npt.NDArray[Any], factor: Floats) -> Floats:
    """The windows, each pixel times its own `factor`, a map (y, x)."""
    out = np.empty(signal.shape)
    if len(signal):
        _scaled(np.ascontiguousarray(signal), y, x, factor, out)
    return out


def require_3x3(what: str, window: tuple[int, ...]) -> None:
    """Refuse windows that have no neighbours on both sides of the centre.

    Raises:
        ValueError: Fewer than three rows or columns, or an even number of them.
    """
    if min(window) < 3:
        raise ValueError(f"The windows are {window[0]}×{window[1]} pixels; {what} needs at least 3×3.")
    require_centre(what, window)


def require_centre(what: str, window: tuple[int, ...]) -> None:
    """Refuse windows without a central pixel.

    Raises:
        ValueError: An even number of rows or columns.
    """
    if any(side % 2 == 0 for side in window):
        raise ValueError(f"The windows are {window[0]}×{window[1]} pixels; {what} needs odd numbers of both.")


def _zero(signal: Windows) -> Any:
    return np.int64(0) if signal.dtype.kind in "iub" else np.float64(0)


def _flat(signal: Windows) -> tuple[Windows, Any]:
    return np.ascontiguousarray(signal).reshape(len(signal), -1 if len(signal) else 1), _zero(signal)


@Kernel
def _sums(flat: Any, zero: Any, out: Any) -> Any:
    area = flat.shape[1]
    if area == 9:  # Written out, this takes a third of the time.
        for i in range(len(flat)):
            total = zero + flat[i, 0]
            total += flat[i, 1]
            total += flat[i, 2]
            total += flat[i, 3]
            total += flat[i, 4]
            total += flat[i, 5]
            total += flat[i, 6]
            total += flat[i, 7]
            total += flat[i, 8]
            out[i] = total
        return
    for i in range(len(flat)):
        total = zero
        for j in range(area):
            total += flat[i, j]
        out[i] = total


@Kernel
def _largest_2x2(signal: Any, zero: Any, out: Any, corner: Any) -> Any:
    cy, cx = signal.shape[1] // 2, signal.shape[2] // 2
    for i in range(len(signal)):
        low_y, high_y = signal[i, cy - 1], signal[i, cy + 1]
        row = signal[i, cy]
        low_x, high_x = zero + row[cx - 1] + row[cx], zero + row[cx] + row[cx + 1]
        best = low_x + low_y[cx - 1] + low_y[cx]
        best_corner = 0
        total = high_x + low_y[cx] + low_y[cx + 1]
        if total > best:
            best, best_corner = total, 1
        total = low_x + high_y[cx - 1] + high_y[cx]
        if total > best:
            best, best_corner = total, 2
        total = high_x + high_y[cx] + high_y[cx + 1]
        if total > best:
            best, best_corner = total, 3
        out[i] = best
        corner[i] = best_corner


@Kernel
def _brightest(flat: Any, zero: Any, n: Any, top: Any, out: Any) -> Any:
    for i in range(len(flat)):
        known = True
        for j in range(flat.shape[1]):
            known = known and flat[i, j] == flat[i, j]
        if not known:  # NaN is neither bright nor dark.
            out[i] = np.nan
            continue
        for j in range(n):  # The first n, sorted, the smallest first.
            k = j
            while k > 0 and top[k - 1] > flat[i, j]:
                top[k] = top[k - 1]
                k -= 1
            top[k] = flat[i, j]
        for j in range(n, flat.shape[1]):
            value = flat[i, j]
            if value > top[0]:
                k = 0
                while k + 1 < n and top[k + 1] < value:
                    top[k] = top[k + 1]
                    k += 1
                top[k] = value
        total = zero
        for j in range(n):
            total += top[j]
        out[i] = total


@Kernel
def _above(signal: Any, y: Any, x: Any, threshold: Any, out: Any) -> Any:
    rows, columns = signal.shape[1], signal.shape[2]
    height, width = threshold.shape
    for i in range(len(signal)):
        y0, x0 = np.int64(y[i]) - rows // 2, np.int64(x[i]) - columns // 2
        count = 0
        for r in range(max(0, -y0), min(rows, height - y0)):
            for c in range(max(0, -x0), min(columns, width - x0)):
                count += signal[i, r, c] > threshold[y0 + r, x0 + c]
        out[i] = count


@Kernel
def _scaled(signal: Any, y: Any, x: Any, factor: Any, out: Any) -> Any:
    rows, columns = signal.shape[1], signal.shape[2]
    height, width = factor.shape
    for i in range(len(signal)):
        y0, x0 = np.int64(y[i]) - rows // 2, np.int64(x[i]) - columns // 2
        first_row, last_row = max(0, -y0), min(rows, height - y0)
        first_column, last_column = max(0, -x0), min(columns, width - x0)
        if last_row - first_row < rows or last_column - first_column < columns:
            out[i] = 0.0
        for r in range(first_row, last_row):
            for c in range(first_column, last_column):
                out[i, r, c] = signal[i, r, c] * factor[y0 + r, x0 + c]


@Kernel
def _above_noise(signal: Any, y: Any, x: Any, limit: Any, pixels: Any, zero: Any, out: Any) -> Any:
    """Centre above the limit, largest 2×2 above twice, sum above √(pixels) times the limit of the central pixel."""
    rows, columns = signal.shape[1], signal.shape[2]
    cy, cx = rows // 2, columns // 2
    for i in range(len(signal)):
        least = limit[y[i], x[i]]
        s = signal[i]
        kept = s[cy, cx] > least
        if kept:
            low = zero + s[cy - 1, cx]
            high = zero + s[cy + 1, cx]
            left = zero + s[cy, cx - 1]
            right = zero + s[cy, cx + 1]
            best = max(
                max(low + left + s[cy - 1, cx - 1], low + right + s[cy - 1, cx + 1]),
                max(high + left + s[cy + 1, cx - 1], high + right + s[cy + 1, cx + 1]),
            )
            kept = best + s[cy, cx] > 2 * least
        if kept:
            total = zero
            for r in range(rows):
                for c in range(columns):
                    total += s[r, c]
            kept = total > pixels * least
        out[i] = kept

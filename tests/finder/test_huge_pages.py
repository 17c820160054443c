"""A chain's memory in one piece."""

from __future__ import annotations

import numpy as np
import pytest

from finder.huge_pages import CACHE_LINE, HUGE_PAGE, Memory


@pytest.mark.parametrize("nbytes", [0, 1000, 3 * HUGE_PAGE + 17])
def test_arrays_are_zeros_of_their_own_on_cache_lines_however_much_is_asked_for(nbytes):
    memory = Memory(nbytes)
    sizes = [1, 17, 70_000, 0, 800_000, 3]
    arrays = [memory.zeros(size, dtype) for size in sizes for dtype in (np.float32, np.uint8)]
    for number, array in enumerate(arrays, start=1):
        assert array.size == 0 or array.ctypes.data % CACHE_LINE == 0
        assert not array.any()
        array[:] = number
    assert [array.size for array in arrays] == [size for size in sizes for _ in range(2)]
    assert all((array == number).all() for number, array in enumerate(arrays, start=1))
    del memory
    assert arrays[0].tolist() == [1.0]


def test_a_large_piece_begins_where_a_huge_page_can():
    assert Memory(HUGE_PAGE + 1).zeros(8, np.uint8).ctypes.data % HUGE_PAGE == 0

"""Memory that files are read into."""

import numpy as np
import pytest

from frame_archive.kept_memory import KeptMemory, page_aligned


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 4_109_806, 33 << 20])
def test_memory_begins_with_a_page_and_has_so_many_bytes(nbytes):
    for memory in (page_aligned(nbytes), KeptMemory()(nbytes)):
        assert memory.nbytes == nbytes
        assert memory.dtype == np.uint8
        assert nbytes == 0 or memory.ctypes.data % 4096 == 0


def test_what_is_kept_is_used_again_and_what_is_very_large_is_not_kept():
    kept = KeptMemory()
    first = kept(5000)
    assert np.shares_memory(first, kept(100))
    assert not np.shares_memory(first, kept(65 << 20))
    assert np.shares_memory(first, kept(5000))

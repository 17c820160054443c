import numpy as np
import pytest
import xarray as xr

from analysis.blocks import blocks


def by_hand(ds, radius):
    frame, y, x = (ds[name].values.astype(int) for name in ("frame_index", "y", "x"))
    near = (
        (frame[:, None] == frame)
        & (abs(y[:, None] - y) <= radius)
        & (abs(x[:, None] - x) <= radius)
        & ~np.eye(len(frame), dtype=bool)
    )
    return ~near.any(axis=1)


@pytest.mark.parametrize("radius", [0, 1, 3, 10, 60])
def test_isolated_clusters_are_those_without_a_neighbour(make_photons, radius):
    ds = make_photons(1500)
    expected = by_hand(ds, radius)
    np.testing.assert_array_equal(ds.photons.isolated(radius), expected)
    if radius == 3:
        assert 0.05 < expected.mean() < 0.95


def test_the_order_of_the_clusters_does_not_matter(make_photons):
    ds = make_photons(1500)
    shuffled = ds.isel(cluster=np.random.default_rng(1).permutation(1500))
    np.testing.assert_array_equal(shuffled.photons.isolated(3), by_hand(shuffled, 3))


@pytest.mark.parametrize("rows", [1, 7, 100, 5000])
def test_a_frame_that_is_cut_by_a_block_is_seen_whole(make_photons, monkeypatch, rows):
    ds = make_photons(1500)
    monkeypatch.setattr("analysis.isolation.blocks", lambda d, names, dim: blocks(d, names, dim, rows))
    np.testing.assert_array_equal(ds.photons.isolated(4), by_hand(ds, 4))


def test_the_mask_selects_clusters(stored):
    alone = stored.photons.isolated(2)
    assert alone.dtype == bool
    assert stored.isel(cluster=alone).photons.spectrum().sum() <= alone.sum()
    with pytest.raises(ValueError, match="radius is -1"):
        stored.photons.isolated(-1)


def test_blocks_end_where_chunks_end_and_cover_every_row_once(stored):
    parts = list(blocks(stored, ("x", "y"), "cluster", rows=3000))
    assert [part.sizes["cluster"] for part in parts[:-1]] == [2048] * (len(parts) - 1)
    assert all(part.x.chunks is None for part in parts)
    joined = xr.concat(parts, "cluster")
    np.testing.assert_array_equal(joined.x, stored.x)
    assert list(blocks(stored.isel(cluster=slice(0, 0)), ("x",), "cluster")) == []

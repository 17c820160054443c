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
    np.testing.assert_array_equal(ds.photons.isolated(radius).kept(), expected)
    if radius == 3:
        assert 0.05 < expected.mean() < 0.95


def test_the_order_of_the_clusters_does_not_matter(make_photons):
    ds = make_photons(1500)
    shuffled = ds.isel(cluster=np.random.default_rng(1).permutation(1500))
    np.testing.assert_array_equal(shuffled.photons.isolated(3).kept(), by_hand(shuffled, 3))


def test_a_lazy_dataset_in_another_order_is_refused_in_a_sentence(make_photons):
    ds = make_photons(1500)
    shuffled = ds.isel(cluster=np.random.default_rng(1).permutation(1500)).chunk(cluster=100)
    with pytest.raises(ValueError, match="not in the order of their frames"):
        shuffled.photons.isolated(3).count()
    ordered = shuffled.sortby("frame_index")
    np.testing.assert_array_equal(ordered.photons.isolated(3).kept(), by_hand(ordered, 3))


@pytest.mark.parametrize("rows", [1, 7, 100, 5000])
@pytest.mark.parametrize("counted", [True, False])
def test_a_frame_that_is_cut_by_a_block_is_seen_whole(make_photons, rows, counted):
    ds = make_photons(600 if rows == 1 else 1500)
    lazy = ds.chunk(cluster=rows) if counted else ds.drop_vars("n_clusters").chunk(cluster=rows)
    kept = lazy.photons.isolated(4).kept()
    assert kept.chunks is not None
    np.testing.assert_array_equal(kept, by_hand(ds, 4))


@pytest.mark.parametrize("rows", [None, 130])
def test_clusters_that_were_dropped_before_are_nobodys_neighbours(make_photons, rows):
    ds = make_photons(1500)
    half = ds.x.values < 25
    expected = half.copy()
    expected[half] = by_hand(ds.isel(cluster=half), 6)
    photons = (ds if rows is None else ds.chunk(cluster=rows)).photons
    np.testing.assert_array_equal(photons.roi(x=(0, 25)).isolated(6).kept(), expected)
    np.testing.assert_array_equal(photons.isolated(6).roi(x=(0, 25)).kept(), by_hand(ds, 6) & half)
    assert (expected != by_hand(ds, 6) & half).any()


def test_a_negative_radius_is_refused(stored):
    with pytest.raises(ValueError, match="radius is -1"):
        stored.photons.isolated(-1)


def test_blocks_end_where_chunks_end_and_cover_every_row_once(stored):
    parts = list(blocks(stored, ("x", "y"), "cluster", rows=3000))
    assert [part.sizes["cluster"] for part in parts[:-1]] == [2048] * (len(parts) - 1)
    assert all(part.x.chunks is None for part in parts)
    joined = xr.concat(parts, "cluster")
    np.testing.assert_array_equal(joined.x, stored.x)
    assert list(blocks(stored.isel(cluster=slice(0, 0)), ("x",), "cluster")) == []


@pytest.mark.parametrize(
    ("name", "value", "message"), [("frame_index", 2**31, "2147483648 frames"), ("x", 2**16, "65536 rows")]
)
def test_what_does_not_fit_into_one_number_is_refused_and_not_left_out(make_photons, name, value, message):
    ds = make_photons(3)
    ds[name] = ds[name].astype("u4") * 0 + np.uint32(value)
    with pytest.raises(ValueError, match=message):
        ds.photons.isolated(3).kept()

"""Products of a run: the same counts as those of the cluster list, with it or instead of it."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import analysis  # noqa: F401 (the accessor)
from cluster_store import open_dataset
from finder import rounded
from finder.products import PRODUCTS, ProductCounter, ProductOptions, SpectrumBins
from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare, process
from pipeline.errors import ResumeError
from pipeline.output import products as products_module
from pipeline.output.products import ProductTotals, products_table
from pipeline.output.side_folder import LocalSideFolder

OPTIONS = ProductOptions(PRODUCTS, SpectrumBins(0, 400, 2), eta_bins=12)
SHAPE = (20, 30)


def some_products(seed, n=500):
    rng = np.random.default_rng(seed)
    counter = ProductCounter(OPTIONS, SHAPE, (3, 3))
    y, x = (rng.integers(0, side, n).astype(np.uint16) for side in SHAPE)
    counter.add(y, x, rng.normal(20, 30, (n, 3, 3)).astype(np.int32))
    return counter.products.narrowed()


@pytest.fixture
def totals(tmp_path):
    return ProductTotals(OPTIONS, SHAPE, LocalSideFolder(tmp_path), "first")


def assert_same_products(first, second):
    for ours, theirs in zip(first.arrays, second.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_batch_is_in_the_sum_once_however_often_it_is_found(totals):
    for batch in (3, 0, 3, 1, 0):
        totals.add(batch, some_products(batch))
    assert sorted(totals.batches) == [0, 1, 3]
    assert [int(array.sum()) for array in totals.products.arrays] == [1500] * 3


def test_a_sum_is_taken_up_where_it_was_left(totals, tmp_path):
    totals.add(2, some_products(2))
    totals.save()
    totals.add(5, some_products(5))
    again = ProductTotals(OPTIONS, SHAPE, LocalSideFolder(tmp_path), "first")
    again.load(range(6))
    assert sorted(again.batches) == [2]
    again.add(2, some_products(2))
    again.add(5, some_products(5))
    assert_same_products(again.products, totals.products)
    assert [path.name for path in tmp_path.iterdir()] == ["products.npz"]


def test_a_sum_that_is_not_this_runs_or_not_whole_is_not_taken_up(totals, tmp_path):
    totals.add(2, some_products(2))
    totals.save()

    def taken_up(options=OPTIONS, origin="first", known=range(6)):
        other = ProductTotals(options, SHAPE, LocalSideFolder(tmp_path), origin)
        other.load(known)
        return len(other.batches) > 0

    assert taken_up()
    assert not taken_up(origin="second")
    assert not taken_up(options=ProductOptions(("hitmap",)))
    assert not taken_up(options=ProductOptions(PRODUCTS, SpectrumBins(0, 402, 2), eta_bins=12))
    # A batch that the journal doesn't know may yet come to something else.
    assert not taken_up(known=[0, 1])
    whole = (tmp_path / "products.npz").read_bytes()
    for damaged in (whole[:-100], whole[:2000] + b"??" + whole[2002:], b"", b"no zip"):
        (tmp_path / "products.npz").write_bytes(damaged)
        assert not taken_up()


def opened(table):
    """A table as xarray opens it."""
    columns = {name: (column.dims, column.values, column.attrs) for name, column in table.variables.items()}
    return xr.Dataset(columns, attrs=table.attrs)


def test_the_table_says_what_its_numbers_mean(totals):
    totals.add(0, some_products(0))
    table = opened(products_table(totals.products, OPTIONS))
    assert {name: array.dims for name, array in table.data_vars.items()} == {
        "spectrum": ("energy",), "hit_map": ("y", "x"), "eta": ("eta_y", "eta_x"),
    }  # fmt: skip
    spectrum, hit_map, eta = table.spectrum, table.hit_map, table.eta
    assert int(spectrum.sum()) + spectrum.attrs["below"] + spectrum.attrs["above"] == 500
    assert (spectrum.energy[0], spectrum.energy[1], spectrum.energy.attrs["units"]) == (0.5, 2.5, "ADU")
    assert (int(hit_map.sum()), hit_map.shape) == (500, SHAPE)
    assert int(eta.sum()) + eta.attrs["outside"] == 500
    assert all(variable.attrs.get("units") != "1" for variable in table.variables.values())
    assert float(eta.eta_x[0]) == pytest.approx(-0.25 + 1.5 / 24)
    only_eta = opened(products_table(totals.products, ProductOptions(("eta",), eta_bins=12)))
    assert set(only_eta.data_vars) == {"eta"}


NAMED = {"products": ProductOptions(PRODUCTS, SpectrumBins(-20, 300, 4), eta_bins=30)}


def products_of(out):
    return xr.open_zarr(out, group="products").load()


def assert_are_those_of(products, clusters):
    """The products are what counting the listed clusters gives."""
    counter = ProductCounter(NAMED["products"], SHAPE, clusters.signal.shape[1:])
    counter.add(clusters.y.values, clusters.x.values, rounded(clusters.signal.values.astype(np.float32), np.int32))
    xr.testing.assert_identical(products, opened(products_table(counter.products, NAMED["products"])))


class TestRuns:
    """Whole runs on a real cluster."""

    @pytest.fixture
    def archive(self, make_archive):
        return make_archive()

    @pytest.mark.parametrize("signal_dtype", ["int32", "float32"])
    def test_products_are_those_of_the_clusters_that_are_listed_beside_them(self, client, archive, signal_dtype):
        clusters = run(archive, client, batch_size=7, signal_dtype=signal_dtype, **NAMED)
        assert clusters.sizes["cluster"] > 100
        assert_are_those_of(products_of(archive.out), clusters)

    def test_without_the_list_everything_else_is_the_same(self, client, archive):
        clusters = run(archive, client, batch_size=7, **NAMED)
        products = products_of(archive.out)
        listless = run(archive, client, batch_size=13, clusters=False, **NAMED)
        assert_are_those_of(products, clusters)
        assert set(listless.variables) == {"n_clusters", "frame_number", "frame_status"}
        again = run(archive, client, batch_size=7, clusters=False, **NAMED)
        xr.testing.assert_identical(products_of(archive.out), products)
        # The digest is of what there is: without the list, of the counts.
        assert again.attrs["digest"] not in (clusters.attrs["digest"], listless.attrs["digest"])
        once_more = run(archive, client, batch_size=7, clusters=False, **NAMED)
        assert once_more.attrs["digest"] == again.attrs["digest"]
        np.testing.assert_array_equal(again.n_clusters, clusters.n_clusters)
        assert again.attrs["products"] == "spectrum -20:300:4 ADU, hitmap, eta in 30 bins"
        batches = xr.open_zarr(archive.out, group="batches")
        assert int(batches.n_clusters.sum()) == clusters.sizes["cluster"]
        assert int(batches.write_bytes.sum()) == 0

    def test_what_analysis_says_of_the_list_is_what_was_counted(self, client, archive):
        clusters, bins = run(archive, client, batch_size=7, **NAMED), NAMED["products"].spectrum
        products = products_of(archive.out)
        spectrum = clusters.photons.spectrum(bins.edges)
        np.testing.assert_array_equal(spectrum, products.spectrum)
        np.testing.assert_array_equal(spectrum.energy, products.energy)
        for side in ("below", "above"):
            assert spectrum.attrs[side] == products.spectrum.attrs[side]
        np.testing.assert_array_equal(clusters.photons.hit_map(), products.hit_map)
        eta = clusters.photons.eta_histogram("2x2", bins=30)
        np.testing.assert_allclose(eta.eta_x, products.eta_x, atol=1e-12)
        assert int(eta.sum()) == int(products.eta.sum())
        # Fractions on an edge fall to either side in floating point; in integers they do not.
        assert int(abs(eta - products.eta.values).sum()) <= 0.02 * int(eta.sum())

    def test_a_killed_worker_counts_no_cluster_twice(self, archive, client):
        expected = run(archive, client, batch_size=5, **NAMED)
        with open_cluster(ClusterConfig(workers=2)) as other:
            pid = next(iter(other.run(os.getpid).values()))

            def kill_it(progress):
                if progress.batches == 4:
                    os.kill(pid, signal.SIGKILL)

            run(archive, other, batch_size=5, clusters=False, on_progress=kill_it, **NAMED)
        assert_are_those_of(products_of(archive.out), expected)

    def test_a_run_from_python_returns_what_there_is(self, client, archive):
        with pytest.raises(ValueError, match="say what to count with --products"):
            process(archive.path, client=client, clusters=False)
        frames = process(archive.path, client=client, products=["hitmap"], clusters=False)
        assert set(frames.variables) == {"n_clusters", "frame_number", "frame_status"}
        assert int(products_of(archive.out).hit_map.sum()) == int(frames.n_clusters.sum())

    @pytest.mark.parametrize(("stop_at", "clusters"), [(1, True), (6, False)], ids=["with the list", "without"])
    def test_a_run_that_was_broken_off_counts_every_cluster_once(self, client, archive, stop_at, clusters, saves):
        expected = run(archive, client, batch_size=10, **NAMED)
        asked = {"batch_size": 10, "clusters": clusters, **NAMED}
        with pytest.raises(ClientEndedError):
            run(archive, client, on_progress=interrupt_at(stop_at), **asked)
        # Some batches are in the sum that was saved and some are not, as after a client that was killed.
        assert saves or (Path(f"{archive.out}.journal") / "products.npz").exists()
        run(archive, client, resume=True, overwrite=False, **asked)
        assert_are_those_of(products_of(archive.out), expected)
        assert not Path(f"{archive.out}.journal").exists()

    def test_a_lost_sum_is_found_again(self, client, archive):
        expected = run(archive, client, batch_size=10, **NAMED)
        with pytest.raises(ClientEndedError):
            run(archive, client, batch_size=10, on_progress=interrupt_at(6), **NAMED)
        (Path(f"{archive.out}.journal") / "products.npz").unlink()
        run(archive, client, batch_size=10, resume=True, overwrite=False, **NAMED)
        assert_are_those_of(products_of(archive.out), expected)

    def test_other_products_than_before_can_not_be_gone_on_with(self, client, archive):
        with pytest.raises(ClientEndedError):
            run(archive, client, batch_size=10, on_progress=interrupt_at(3), **NAMED)
        with pytest.raises(ResumeError, match="products was spectrum -20:300:4 ADU, hitmap, eta in 30 bins and now"):
            run(archive, client, batch_size=10, resume=True, overwrite=False)


class ClientEndedError(Exception):
    """A client that ends in the middle of a run."""


def interrupt_at(batches):
    def interrupt(progress):
        if progress.batches == batches:
            raise ClientEndedError

    return interrupt


@pytest.fixture(params=[False, True], ids=["saved at the end", "saved now and then"])
def saves(request, monkeypatch):
    """Whether the sum is kept as a client leaves it that was killed: as it was some batches ago."""
    if request.param:
        save, calls = ProductTotals.save, iter(range(10**6))
        monkeypatch.setattr(products_module, "SECONDS_BETWEEN_SAVES", -1.0)
        monkeypatch.setattr(ProductTotals, "save", lambda self: save(self) if next(calls) % 3 == 0 else None)
    return request.param


def run(archive, client, on_progress=None, overwrite=True, **options):
    prepared = prepare(RunOptions(archive.path, overwrite=overwrite, **options))
    prepared = replace(prepared, layout=replace(prepared.layout, rows_per_chunk=64))
    return open_dataset(execute(prepared, client, on_progress=on_progress).out).load()

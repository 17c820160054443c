"""Datasets that somebody has turned, cut or converted: the same answers, or a sentence that says what is wrong."""

import numpy as np
import pytest
import xarray as xr

import analysis

WINDOW = ("cluster_y", "cluster_x")


def answers(ds):
    """What is asked of a dataset, all kinds of it, as arrays."""
    photons = ds.photons
    chosen = photons.no_edges((30, 50)).isolated(2).noise_cuts(3, 12.0)
    return [
        photons.energy(), photons.energy("largest_2x2"), photons.energy("brightest", 4), photons.corner(),
        photons.calibrated(np.full((30, 50), 90.0)).energy(), photons.pixels_above(3, np.full((30, 50), 12.0)),
        photons.hit_map((30, 50)), photons.spectrum(80, (700, 860)), photons.rate(7), chosen.kept(),
        chosen.hit_map((30, 50)), photons.eta("2x2").eta_x, photons.eta("3x3").eta_y,
        photons.eta_histogram("cross_3x3", 20),
    ]  # fmt: skip


@pytest.fixture
def few(make_photons):
    return make_photons(1500)


def assert_same_answers(first, second):
    for one, other in zip(answers(first), answers(second), strict=True):
        np.testing.assert_array_equal(one.values, other.values)


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.transpose("cluster_x", "cluster", "cluster_y", "frame"),
        lambda ds: ds.map(lambda values: values.astype(values.dtype.newbyteorder(">"))),
        lambda ds: ds.assign(signal=ds.signal.astype("float32")),
        lambda ds: ds.chunk(cluster=149, cluster_y=1),
        lambda ds: ds.chunk(cluster=(1, 698, 1, 800)),
        lambda ds: ds.assign(y=ds.y.chunk(cluster=77), signal=ds.signal.chunk(cluster=501)),
        lambda ds: ds.transpose("cluster_y", "cluster_x", "cluster", "frame").chunk(cluster=333, cluster_x=2),
        lambda ds: ds.drop_vars("n_clusters").chunk(cluster=100),
    ],
    ids=["turned", "big-endian", "float", "small chunks", "odd chunks", "two chunkings", "turned lazy", "no counts"],
)  # fmt: skip
def test_whatever_form_clusters_have_the_answers_are_the_same(few, change):
    assert_same_answers(change(few), few)


def test_unsigned_signals_are_not_taken_for_large_ones(few):
    unsigned, signed = few.assign(signal=abs(few.signal).astype("uint16")), few.assign(signal=abs(few.signal))
    for ask in (lambda p: p.energy("largest_2x2"), lambda p: p.eta("3x3").eta_x, lambda p: p.eta("2x2").eta_y):
        np.testing.assert_array_equal(ask(unsigned.photons), ask(signed.photons))


@pytest.mark.parametrize("size", [3, 9])
def test_sums_of_large_windows_do_not_overflow(size):
    ds = xr.Dataset({"signal": (("cluster", *WINDOW), np.full((3, size, size), 2**31 - 1, np.int32))})
    assert ds.photons.energy().values.tolist() == [(2**31 - 1) * size**2] * 3
    assert ds.photons.energy("largest_2x2").values.tolist() == [(2**31 - 1) * 4] * 3
    assert ds.photons.energy("brightest", size**2).values.tolist() == ds.photons.energy().values.tolist()
    assert float(ds.photons.eta("3x3").energy[0]) == (2**31 - 1) * 9


def test_a_signal_that_is_not_a_number_makes_no_other_one_wrong(few):
    signal = few.signal.values.astype("float32")
    signal[3, 0, 2] = np.nan
    signal[5, 1, 1] = np.inf
    photons = few.assign(signal=(few.signal.dims, signal)).photons
    for kind, n in (("sum", None), ("brightest", 4)):
        energy = photons.energy(kind, n).values
        assert np.isnan(energy[3])
        assert energy[5] == np.inf
        others = np.delete(np.arange(len(energy)), [3, 5])
        np.testing.assert_allclose(energy[others], few.photons.energy(kind, n).values[others])
    assert photons.spectrum(20, (0, 2000)).sum() == len(signal) - 2
    assert np.isnan(photons.eta("2x2").eta_x[5])
    assert np.isnan(photons.eta("3x3").eta_x[3])
    assert int(photons.eta_histogram("3x3", 10).sum()) == len(signal) - 2
    places = few.photons.interpolation(bins=20)
    assert (
        photons.super_resolved(places, 2).sum() >= len(signal) - 2 - photons.super_resolved(places, 2).attrs["outside"]
    )


@pytest.mark.parametrize(
    ("change", "ask", "message"),
    [
        (lambda ds: ds.assign(signal=ds.signal.astype("float16")), lambda p: p.energy(), "signal is float16"),
        (lambda ds: ds.assign(signal=ds.signal.astype(complex)), lambda p: p.eta(), "signal is complex128"),
        (lambda ds: ds.assign(signal=ds.signal.astype(str)), lambda p: p.spectrum(), "signal is <U"),
        (lambda ds: ds.rename(cluster_y="row"), lambda p: p.energy(), "signal has the dimensions"),
        (lambda ds: ds.assign(y=ds.y.astype(float)), lambda p: p.hit_map(), "y is float64, and must be whole numbers"),
        (lambda ds: ds.assign(x=ds.x.astype(int) - 20), lambda p: p.hit_map(), r"lies at y = \d+, x = -\d+, beyond"),
        (lambda ds: ds.assign(y=ds.y.astype(int) - 20), lambda p: p.isolated(1).kept(), "negative frame_index, y or x"),
        (lambda ds: ds.assign(y=ds.y.astype(int) - 20), lambda p: p.calibrated(np.ones((30, 50))).energy(), "y = -"),
        (lambda ds: ds.assign(frame_index=ds.frame_index.astype(int) - 5), lambda p: p.spectrum(frames=9), "frame -5"),
        (lambda ds: ds.isel(frame=slice(0, 40)).chunk(cluster=10), lambda p: p.isolated(1), "leave the dimension"),
        (lambda ds: ds.isel(cluster_y=slice(0, 2), cluster_x=slice(0, 2)), lambda p: p.eta(), "needs at least 3×3"),
        (lambda ds: ds.isel(cluster_x=[0, 1, 2, 2]), lambda p: p.eta(), "3×4 pixels; eta needs odd numbers"),
        (lambda ds: ds.isel(cluster_x=[0, 1]), lambda p: p.energy("centre"), "3×2 pixels; the central pixel needs odd"),
        (lambda ds: ds.isel(cluster_y=[1]), lambda p: p.eta("3x3"), "1×3 pixels; eta needs at least 3×3"),
        (lambda ds: ds.isel(cluster_y=[1], cluster_x=[1]), lambda p: p.energy("largest_2x2"), "1×1 pixels"),
        (lambda ds: ds.isel(cluster_y=[1], cluster_x=[1]), lambda p: p.energy("brightest", 2), "1 to 1 brightest"),
    ],
)  # fmt: skip
def test_what_can_not_be_clusters_is_refused_in_a_sentence(few, change, ask, message):
    with pytest.raises(ValueError, match=message) as caught:
        ask(change(few).photons)
    assert "\n" not in str(caught.value)


def test_a_map_with_named_axes_is_taken_in_either_order(few):
    rng = np.random.default_rng(2)
    gain = xr.DataArray(rng.uniform(80, 120, (30, 50)), dims=("y", "x"))
    labels, mask = (gain > 100).astype(int), gain > 110
    for asked in (
        lambda p, turn: p.calibrated(turn(gain)).energy(),
        lambda p, turn: p.calibrated(100.0, turn(gain)).energy(),
        lambda p, turn: p.mask(turn(mask), touching=True).kept(),
        lambda p, turn: p.pixels_above(3, turn(gain)),
        lambda p, turn: p.noise_cuts(1, turn(gain)).kept(),
        lambda p, turn: p.spectrum(30, (0, 900), regions=turn(labels)),
    ):
        np.testing.assert_array_equal(
            asked(few.photons, lambda m: m.transpose("x", "y")), asked(few.photons, lambda m: m)
        )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.calibrated(np.ones((50, 30))), r"gain has the shape \(50, 30\), and the detector \(30, 50\)"),
        (lambda p: p.mask(np.zeros((50, 30), bool)), r"mask has the shape \(50, 30\)"),
        (lambda p: p.spectrum(regions=np.ones((50, 30), int)), r"regions has the shape \(50, 30\)"),
        (lambda p: p.noise_cuts(5, np.ones((50, 30))), r"noise has the shape \(50, 30\)"),
        (lambda p: p.calibrated(np.full((30, 50), np.nan)), "No pixel of the gain map has a positive gain"),
        (lambda p: p.calibrated(-100), "must be a positive number"),
        (lambda p: p.calibrated(np.inf), "must be a positive number"),
        (lambda p: p.calibrated(100, np.nan), "offset is nan ADU"),
        (lambda p: p.noise_cuts(5, np.nan), "noise is negative or not finite"),
        (lambda p: p.noise_cuts(5, -1), "noise is negative"),
        (lambda p: p.noise_cuts(-5, 12), "n is -5; it must be a number of at least 0"),
        (lambda p: p.no_pile_up(0, noise=12), "photon_energy is 0"),
        (lambda p: p.roi(y=(30, 40)), r"y is \(30, 40\), beyond the detector's 30 pixels along y"),
        (lambda p: p.roi(x=slice(-10, None)), "pixels are counted from 0"),
        (lambda p: p.roi(y=5), r"y is 5; it must be \(first, end\)"),
        (lambda p: p.roi(y=(1, 2, 3)), r"y is \(1, 2, 3\); it must be"),
        (lambda p: p.roi(y=("a", 2)), "it must be"),
        (lambda p: p.roi(y="ab"), "it must be"),
        (lambda p: p.energy_window(None, 5), "low is None; it must be a number"),
        (lambda p: p.energy_window("700", 900), "low is '700'"),
        (lambda p: p.noise_cuts(None, 12), "n is None"),
        (lambda p: p.noise_cuts(5, "low"), "noise is 'low'"),
        (lambda p: p.pixels_above(np.nan, 12.0), "k is nan"),
        (lambda p: p.calibrated(100 + 1j), "gain is"),
        (lambda p: p.energy("brightest", "4"), "n is '4'"),
        (lambda p: p.eta_histogram(energy_bins="low"), "two edges in ascending order"),
        (lambda p: p.where(p.energy() > 1e9).interpolation(), "No cluster to learn from has an eta"),
        (lambda p: analysis.calibrate([xr.Dataset(), xr.Dataset()]), "A line lacks line_energy"),
        (lambda p: p.fit_line(analysis.KLines("none", -1, 1, 0)), "energies are above 0"),
        (lambda p: p.frame_range(-10, 5), "start is -10"),
        (lambda p: p.frame_range(120, 110), "hold none of the dataset's"),
        (lambda p: p.isolated(2.5), "radius is 2.5; it must be a whole number"),
        (lambda p: p.rate(2.5), "frames is 2.5"),
        (lambda p: p.rate("all"), "frames is 'all'"),
        (lambda p: p.spectrum(2.7), "bins is 2.7; it must be a whole number"),
        (lambda p: p.spectrum(1e9), "must be at most"),
        (lambda p: p.spectrum(range=5), "range is 5; it must be two finite numbers"),
        (lambda p: p.calibrated(np.ones((30, 50))).spectrum(10, (1e17, 1e17 + 16)), "narrower than numbers can tell"),
        (lambda p: p.calibrated(1.0).spectrum([0, 5e-324, 1]).sum(), None),
        (lambda p: p.calibrated(np.ones((30, 50))).spectrum(10, (0, 5e-324)), "narrower than numbers can tell"),
        (lambda p: p.eta_histogram(range=(0, 5e-324)), "don't fit between them"),
        (lambda p: p.eta_histogram(bins=3.5), "bins is 3.5"),
        (lambda p: p.hit_map((0, 5)), r"shape is \(0, 5\); it must be \(rows, columns\)"),
        (lambda p: p.hit_map(400), "shape is 400; it must be"),
        (lambda p: p.energy("brightest", 10), "1 to 9 brightest"),
        (lambda p: p.where(xr.DataArray(np.ones(90, bool), dims="frame")), "must be bool, one for each"),
        (lambda p: p.positions("2x2"), "give what photons.interpolation"),
        (lambda p: p.super_resolved(p.interpolation(bins=9), 1.5), "factor is 1.5"),
        (lambda p: p.peak(range=(5000, 6000)), "no peak"),
        (lambda p: p.gain_map("Cu", bins=50, range=(5000, 6000)), "no peak"),
    ],
)  # fmt: skip
def test_what_a_user_gives_that_makes_no_sense_is_refused_in_a_sentence(few, ask, message):
    if message is None:
        ask(few.photons)
        return
    for ds in (few, few.chunk(cluster=400)):
        with pytest.raises(ValueError, match=message) as caught:
            ask(ds.photons)
        assert "\n" not in str(caught.value)


def test_a_gain_map_with_holes_calibrates_what_it_can(few):
    gain = np.full((30, 50), 100.0)
    gain[:5], gain[5, :], gain[6, :], gain[7, :] = np.nan, np.inf, -100, 0
    spectrum = few.photons.calibrated(gain).spectrum(50, (0, 20))
    assert spectrum.attrs["uncalibrated"] == int((few.y < 8).sum()) > 0
    assert int(spectrum.sum()) == int((few.y >= 8).sum())
    offset = np.where(np.arange(30)[:, None] < 4, np.inf, 0.0) * np.ones(50)
    assert few.photons.calibrated(100.0, offset).spectrum(50, (0, 20)).attrs["uncalibrated"] == int((few.y < 4).sum())


def test_no_clusters_and_one_are_answered_everywhere(make_photons):
    for n in (0, 1):
        for ds in (
            make_photons(n),
            make_photons(n).chunk(cluster=1),
            make_photons(n).transpose(*WINDOW, "cluster", "frame"),
        ):
            assert all(array.size is not None for array in answers(ds))
            photons = ds.photons.isolated(1)
            assert photons.count() == photons.hit_map().sum() == n
            assert photons.spectrum(frames=30).sizes["frame"] == photons.rate(30).sizes["frame"] == 3
            assert photons.pixel_spectra(5, (0, 900)).sum() == n
            assert photons.eta_histogram(energy_bins=[0, 5000]).sum() == n
            with pytest.raises(ValueError, match="peak"):
                photons.fit_line("Cu")
            assert repr(photons).startswith(f"<photons: {n} clusters, 3×3 int32")


def test_a_repr_says_what_there_is_and_computes_nothing(stored, few):
    lazy = stored.photons.roi(y=(0, 10)).isolated(3)
    assert repr(lazy) == ("<photons: 20,000 clusters, 3×3 int32, 90 frames; roi(y=(0, 10), x=None); isolated(3)>")
    assert repr(lazy.calibrated(100.0)).startswith("<photons: 20,000 clusters, 3×3 int32, 90 frames, in keV; roi")
    assert repr(stored[["n_clusters"]].photons) == "<photons: no list of clusters, 90 frames>"
    assert "lacks" not in repr(xr.Dataset({"t": ("time", [1.0])}).photons)
    learned = few.photons.interpolation("2x2", energy_bins=[0, 5000], bins=20)
    assert repr(learned) == "<Interpolation: 2x2, rosenblatt, 20 bins of eta from -0.5 to 1.5, energies 0, 5000 ADU>"
    assert isinstance(learned, analysis.Interpolation)

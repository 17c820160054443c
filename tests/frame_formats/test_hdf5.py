"""HDF5 and NeXus files, as h5py and hdf5plugin write them: layouts of DECTRIS, slsDetectorPackage, LImA and PSI."""

from __future__ import annotations

import subprocess
import sys

import h5py
import hdf5plugin
import numpy as np
import pytest

from frame_formats import SourceError, open_source

FILTERS = {
    "none": {},
    "gzip": {"compression": "gzip", "shuffle": True},
    "bitshuffle and LZ4": hdf5plugin.Bitshuffle(),
    "LZ4": hdf5plugin.LZ4(),
    "Zstandard": hdf5plugin.Zstd(),
    "Blosc": hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.BITSHUFFLE),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("rows", [1, 3])
def test_compressed_datasets_are_read_value_by_value(tmp_path, frames, values, name, rows):
    chunks = None if name == "none" and rows == 1 else (rows, 12, 10)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("entry/data/data", data=frames, chunks=chunks, **FILTERS[name])
    np.testing.assert_array_equal(values(tmp_path / "a.h5"), frames)


@pytest.mark.parametrize(
    "name",
    [
        "entry/data/data",
        "entry/instrument/detector/data",
        "entry_0000/measurement/data",
        "data",
        "data/JF06T08V01/data",
    ],
)
def test_usual_places_are_found(tmp_path, frames, values, name):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file[name] = frames.astype(">u2")
        file["elsewhere/spectrum"] = np.zeros(100)
    np.testing.assert_array_equal(values(tmp_path / "a.h5"), frames)


def test_nexus_says_by_default_and_signal_where_the_frames_are(tmp_path, frames, values):
    with h5py.File(tmp_path / "a.nxs", "w") as file:
        file["scan/plot/intensities"] = frames
        file["scan/other"] = frames[::-1]
        file.attrs["default"] = "scan"
        file["scan"].attrs["default"] = "plot"
        file["scan/plot"].attrs["signal"] = "intensities"
    np.testing.assert_array_equal(values(tmp_path / "a.nxs"), frames)


def test_of_several_stacks_one_is_named(tmp_path, frames, values):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one/a"], file["two/b"] = frames, frames[::-1]
    with pytest.raises(SourceError, match=r"is not clear: choose a dataset with .*a\.h5::NAME, of one/a \(7, 12, 10\)"):
        open_source(tmp_path / "a.h5")
    np.testing.assert_array_equal(values(tmp_path / "a.h5", "two/b"), frames[::-1])
    with pytest.raises(SourceError, match="holds no dataset 'three'"):
        open_source(tmp_path / "a.h5", "three")


def test_modules_of_a_fourth_dimension_are_put_below_each_other(tmp_path, frames, values):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["entry/data/data"] = frames.reshape(7, 2, 6, 10)
    np.testing.assert_array_equal(values(tmp_path / "a.h5"), frames)


@pytest.fixture
def eiger(tmp_path, frames):
    """A DECTRIS master file with three data files."""
    counts = (3, 3, 1)
    first = 0
    for number, count in enumerate(counts, 1):
        with h5py.File(tmp_path / f"run_data_{number:06}.h5", "w") as file:
            part = frames[first : first + count].astype(np.uint32)
            data = file.create_dataset("entry/data/data", data=part, chunks=(1, 12, 10), **hdf5plugin.Bitshuffle())
            data.attrs["image_nr_low"], data.attrs["image_nr_high"] = first + 1, first + count
        first += count
    mask = np.zeros((12, 10), np.uint32)
    mask[3, 4], mask[5, 6] = 1, 16
    with h5py.File(tmp_path / "run_master.h5", "w") as file:
        for number in range(1, 4):
            file[f"entry/data/data_{number:06}"] = h5py.ExternalLink(f"run_data_{number:06}.h5", "/entry/data/data")
        detector = file.create_group("entry/instrument/detector")
        detector["detectorSpecific/pixel_mask"] = mask
        detector["count_time"] = 0.001
        detector["frame_time"] = 0.0011
        detector["description"] = b"Dectris EIGER2 Si 4M"
        detector["sensor_thickness"] = 0.00045
        file["entry/instrument/beam/incident_wavelength"] = 0.9763
        file["entry/instrument/beam/incident_wavelength"].attrs["units"] = "angstrom"
    return tmp_path / "run_master.h5"


def test_a_dectris_master_file_leads_to_its_data_files_and_says_how_they_were_taken(eiger, frames, values):
    np.testing.assert_array_equal(values(eiger), frames)
    facts = open_source(eiger).facts
    assert facts.frame_numbers.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert [(file.path.name, file.n_frames) for file in facts.files] == [
        ("run_data_000001.h5", 3), ("run_data_000002.h5", 3), ("run_data_000003.h5", 1),
    ]  # fmt: skip
    assert facts.attrs == {
        "exposure_s": 0.001,
        "period_s": 0.0011,
        "wavelength_angstrom": 0.9763,
        "photon_energy_keV": pytest.approx(12.6994, abs=1e-4),
        "detector": "Dectris EIGER2 Si 4M",
    }
    assert facts.header["sensor_thickness"] == 0.00045
    assert np.argwhere(facts.pixel_mask).tolist() == [[3, 4], [5, 6]]


def test_a_data_file_that_is_gone_ends_the_frames_there(eiger, frames, read):
    (eiger.parent / "run_data_000002.h5").unlink()
    opened = open_source(eiger)
    np.testing.assert_array_equal(read(opened.frames), frames[:3])
    assert opened.facts.ended_early == f"{eiger.parent}/run_data_000002.h5, which {eiger} links to, is not there"


def test_data_files_alone_have_their_numbers(eiger):
    assert open_source(eiger.parent / "run_data_000002.h5").facts.frame_numbers.tolist() == [4, 5, 6]


@pytest.fixture
def virtual(tmp_path, frames):
    """A virtual dataset of two modules with two files each, as slsDetectorPackage makes it, and its columns."""
    layout = h5py.VirtualLayout((7, 12, 10), np.uint16)
    for module in range(2):
        rows = slice(6 * module, 6 * module + 6)
        for number, part in enumerate((slice(0, 4), slice(4, 7))):
            name = f"run_d{module}_f{number}_0.h5"
            with h5py.File(tmp_path / name, "w") as file:
                file["data"] = frames[part, rows]
            layout[part, rows] = h5py.VirtualSource(name, "data", (part.stop - part.start, 6, 10))
    with h5py.File(tmp_path / "run_master_0.h5", "w") as file:
        file.create_virtual_dataset("entry/data/data", layout)
        file["entry/data/frame number"] = np.repeat(np.arange(11, 18, dtype=np.uint64)[:, np.newaxis], 2, axis=1)
        file["entry/data/timestamp"] = np.arange(7) * 100
        file["entry/data/detector specific 1"] = np.arange(7) + 5000
        file["entry/instrument/detector/Exptime"] = "10us"
        file["entry/instrument/detector/Detector Type"] = "Jungfrau"
    return tmp_path / "run_master_0.h5"


def test_virtual_datasets_and_columns_of_slsdetectorpackage_are_read(virtual, frames, values):
    np.testing.assert_array_equal(values(virtual), frames)
    facts = open_source(virtual).facts
    assert facts.frame_numbers.tolist() == list(range(11, 18))
    assert facts.columns["timestamp"].tolist() == [0, 100, 200, 300, 400, 500, 600]
    assert facts.columns["bunch_id"].tolist() == list(range(5000, 5007))
    assert facts.attrs["exposure_s"] == 1e-5
    assert facts.attrs["detector"] == "Jungfrau"


def test_a_virtual_dataset_whose_source_is_gone_is_never_read_as_fill_values(virtual, frames, read):
    (virtual.parent / "run_d1_f1_0.h5").unlink()
    opened = open_source(virtual)
    np.testing.assert_array_equal(read(opened.frames), frames[:4])
    assert "run_d1_f1_0.h5, which " in opened.facts.ended_early


def test_chunks_that_were_never_written_are_no_frames(tmp_path, frames, read):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("entry/data/data", (100, 12, 10), np.uint16, chunks=(1, 6, 10))
        data[:5] = frames[:5]
        data[5, :6] = frames[5, :6]
    opened = open_source(tmp_path / "a.h5")
    np.testing.assert_array_equal(read(opened.frames), frames[:5])
    assert "has room for 100 frames, and the first 5 were written" in opened.facts.ended_early
    assert opened.facts.n_lost == 95


def test_a_dataset_that_claims_more_than_memory_holds_is_judged_by_its_chunks(tmp_path, frames, read):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("data", (1 << 40, 12, 10), np.uint16, chunks=(2, 12, 10))
        data[:6] = frames[:6]
    np.testing.assert_array_equal(read(open_source(tmp_path / "a.h5").frames), frames[:6])


def test_a_jungfrau_file_of_psi_has_its_frame_and_pulse_numbers(tmp_path, frames, values):
    with h5py.File(tmp_path / "run.JF06T08V04.h5", "w") as file:
        group = file.create_group("data/JF06T08V04")
        group["data"] = frames
        group["frame_index"] = np.arange(100, 107)[:, np.newaxis]
        group["pulse_id"] = np.arange(9000, 9700, 100)
        group["is_good_frame"] = np.ones((7, 1), bool)
    np.testing.assert_array_equal(values(tmp_path / "run.JF06T08V04.h5"), frames)
    facts = open_source(tmp_path / "run.JF06T08V04.h5").facts
    assert facts.frame_numbers.tolist() == list(range(100, 107))
    assert facts.columns["bunch_id"].tolist() == list(range(9000, 9700, 100))


def test_a_file_that_still_grows_is_read_up_to_its_last_whole_frame(tmp_path, frames, read):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        data = file.create_dataset(
            "entry/data/data", (0, 12, 10), np.uint16, chunks=(1, 12, 10), maxshape=(None, 12, 10)
        )
        file.swmr_mode = True
        for n in (2, 5):
            data.resize(n, 0)
            data[:n] = frames[:n]
            data.flush()
            np.testing.assert_array_equal(read(open_source(tmp_path / "a.h5").frames), frames[:n])


def test_files_that_cannot_be_opened_say_why(tmp_path, frames):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["entry/data/data"] = frames
    script = f"import h5py; file = h5py.File({str(path)!r}, 'r+'); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"open\n"
        with pytest.raises(SourceError, match="is being written, and not in SWMR mode"):
            open_source(path)
        writer.communicate(b"\n")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SourceError, match="is cut short, and HDF5 does not open what is left of it"):
        open_source(path)


def test_a_file_whose_groups_are_damaged_is_said_in_a_sentence(tmp_path, frames):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["entry/data/data"] = frames
    content = path.read_bytes()
    assert content.count(b"HEAP") > 1  # Where the names of a group's members lie.
    path.write_bytes(content.replace(b"HEAP", b"HEAQ"))
    with pytest.raises(SourceError, match=r"a\.h5 is damaged: .*heap.*; copy it again"):
        open_source(path)


def test_a_damaged_chunk_is_told_by_its_frame(tmp_path, frames, read):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("entry/data/data", data=frames, chunks=(1, 12, 10), fletcher32=True)
        at = data.id.get_chunk_info(4).byte_offset
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"frame 4 of .*a\.h5::entry/data/data cannot be read") as error:
        read(open_source(path).frames, step=7)
    assert error.value.index == 4

import json

import numpy as np
import pytest
import zarr


def test_the_study_of_a_multiply_gives_the_textbook_figures(photonflow):
    study = json.loads(photonflow("roofline", "matmul", "--json").stdout)
    assert study["ridge_point"] == pytest.approx(153.0, abs=0.05)
    assert study["smallest_tile_at_ridge"] == 342
    assert study["smallest_batch_at_ridge"] == 166
    assert study["traffic_floor_seconds_without_reuse"] == pytest.approx(134.83e-3, rel=1e-4)
    assert [row["tile"] for row in study["tiles"]] == [1, 4, 16, 64, 256, 1024, 4096]
    assert [row["tile"] for row in study["fast_memories"]] == [52, 104, 209, 418]
    assert {row["m"]: row["bound"] for row in study["batches"]}[165] == "memory"
    assert {row["m"]: row["bound"] for row in study["batches"]}[166] == "compute"


def test_a_machine_may_be_given_as_numbers_and_measured(photonflow):
    shown = photonflow("roofline", "matmul", "--peak", "1e12", "--bandwidth", "1e11", "--n", "64", "--time").stdout
    assert "ridge point         10.0 FLOP/B" in shown
    assert "measured on this machine" in shown
    assert "BLAS, matrix · matrix" in shown


def test_half_a_machine_is_refused(photonflow):
    refused = photonflow("roofline", "matmul", "--peak", "1e12")
    assert refused.code == 2
    assert "both --peak and --bandwidth" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ("matmul", "--bandwidth", "1e12", "--peak", peak)
            for peak in ("0", "-1", "inf", "nan", "1e308", "1e-308", "x")
        ),
        *(("matmul", "--peak", "1e12", "--bandwidth", rate) for rate in ("0", "inf", "nan", "1e-320")),
        ("matmul", "--n", "1000000000000"),
        ("matmul", "--n", "4.5"),
        ("matmul", "--itemsize", "100000000000000000000000"),
        ("matmul", "--machine", "h101"),
        ("finder", "--shape", "0x5"),
        ("finder", "--shape", "100000000000x100000000000"),
        ("finder", "--shape", "9" * 400 + "x3"),
        ("measure", "--window", "nan"),
    ],
)
def test_numbers_that_no_machine_has_are_refused(photonflow, arguments):
    refused = photonflow("roofline", *arguments)
    assert refused.code == 2, refused.stderr
    assert arguments[-2] in refused.stderr


def test_numbers_are_compared_with_the_rate_for_their_precision(photonflow):
    half, single = (
        json.loads(photonflow("roofline", "matmul", "--machine", "h200", "--itemsize", size, "--json").stdout)
        for size in ("2", "4")
    )
    assert (half["peak_flops_a_second"], half["precision"]) == (989.4e12, "BF16 and FP16, matrix units")
    assert (single["peak_flops_a_second"], single["precision"]) == (66.9e12, "FP32, vector units")
    refused = photonflow("roofline", "matmul", "--itemsize", "8")
    assert refused.code == 2
    assert "2 bytes (FP16) and 4 (FP32); give your machine's with --peak" in refused.stderr
    assert photonflow("roofline", "matmul", "--itemsize", "8", "--peak", "1e12", "--bandwidth", "1e11").code == 0


def test_a_machine_with_numbers_of_its_own_is_refused(photonflow):
    refused = photonflow("roofline", "matmul", "--machine", "h200", "--peak", "1e12", "--bandwidth", "1e11")
    assert refused.code == 2
    assert "no --machine" in refused.stderr


def test_small_rates_are_not_rounded_away(photonflow):
    shown = photonflow("roofline", "matmul", "--peak", "80", "--bandwidth", "1e11", "--n", "8").stdout
    assert "0.00 " not in shown.split("TFLOP/s", 2)[2].split("batch m")[0]


def test_a_dataset_is_no_archive_to_measure(photonflow, python_m, archive):
    assert python_m("process", archive, "--cpus", 1, "--no-progress").code == 0
    refused = photonflow("roofline", "measure", str(archive.with_name("a.clusters.zarr")))
    assert refused.code == 1
    assert "is a cluster dataset already" in refused.sentence
    assert "give `roofline measure` an archive" in refused.sentence


def test_frames_that_are_not_obvious_are_named_to_be_measured(photonflow, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    group = zarr.create_group(tmp_path / "two.zarr")
    for name in ("left", "right"):
        group.create_array(name, data=np.random.default_rng(1).integers(900, 1100, (20, 30, 40)).astype(np.uint16))
    measure = ("roofline", "measure", str(tmp_path / "two.zarr"), "--window", "0.001", "--no-progress")
    assert "--frames-path" in photonflow(*measure).sentence
    ceilings = json.loads(photonflow(*measure, "--frames-path", "left", "--json").stdout)["ceilings"]
    assert any("decode uint16" in ceiling["name"] for ceiling in ceilings)


def test_a_machine_is_known_in_capitals_too(photonflow):
    assert "H200 SXM" in photonflow("roofline", "matmul", "--machine", "H200", "--n", "8").stdout


def test_what_the_machine_does_is_measured_kept_and_printed(photonflow, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shown = photonflow("roofline", "measure", "--window", "0.001", "--no-progress")
    assert shown.code == 0, shown.stderr
    # What it may say is that others keep the machine busy.
    assert all(line.startswith("photonflow: warning: other programs") for line in shown.stderr.splitlines())
    for name in ("memory copy", "memory triad", "float32", "int32", "page faults"):
        assert f"\n{name} " in shown.stdout
    assert "device memory" in shown.stdout
    assert "there is no NVIDIA driver on this machine" in shown.stdout
    (kept,) = (tmp_path / "cache" / "photonflow").iterdir()
    names = [ceiling["name"] for ceiling in json.loads(kept.read_text())["ceilings"]]
    assert "memory triad" in names


def test_an_archive_that_is_not_there_is_one_sentence(photonflow):
    assert "nothing.zarr" in photonflow("roofline", "measure", "nothing.zarr").sentence


def test_the_study_of_the_finder_gives_the_published_figures(photonflow):
    study = json.loads(photonflow("roofline", "finder", "--machine", "rtx4090", "--link", "pcie4", "--json").stdout)
    one, *others = study["passes"]
    # 320 kB of frame, and as much of X0; 2.56 MB of state, which K frames a pass divide by K.
    assert one["bytes_a_frame"] == 320_000 + 320_000 + 2_560_000
    assert others[2]["bytes_a_frame"] == 320_000 + (320_000 + 2_560_000) / 8
    assert one["floors"]["PCIe 4.0 ×16"] == pytest.approx(320_000 / 31.5e9, rel=1e-3)
    assert one["binds"] == "PCIe 4.0 ×16"
    assert study["tiles"][1] == {"tile": 16, "loads": 448 * 448, "over_the_frame": pytest.approx(1.2544)}
    shown = photonflow("roofline", "finder", "--cluster-size", "9x9").stdout
    assert "frames a pass" in shown
    assert "8×8" in shown
    assert "odd" in photonflow("roofline", "finder", "--cluster-size", "4x4").sentence

"""`process --gpus`: what is used and why, and refusals that cost nothing, where a driver answers."""

import json

import pytest


@pytest.fixture
def with_driver(python_m, driver_environment, installed_cupy):
    def process(*arguments, cupy="cupy-cuda12x", **environment):
        return python_m("process", *arguments, env=installed_cupy(driver_environment, cupy) | environment)

    return process


@pytest.mark.parametrize(
    ("cupy", "environment", "words"),
    [
        ("cupy-cuda12x", {"LD_LIBRARY_PATH": ""}, "there is no NVIDIA driver on this machine"),
        ("cupy-cuda12x", {"DRIVER_CARDS": "2"}, "4 GPUs were asked for, and there are 2: use --gpus 2"),
        (None, {"DRIVER_CARDS": "4"}, "CuPy, which is not installed: pip install 'photonflow[cuda12]'"),
        ("cupy-cuda13x", {"DRIVER_CARDS": "4"}, "the NVIDIA driver is too old for CUDA 13"),
    ],
    ids=["no driver", "fewer GPUs", "no CuPy", "old driver"],
)
def test_gpus_that_can_not_be_had_end_in_one_sentence(with_driver, archive, cupy, environment, words):
    outcome = with_driver(archive, "--gpus", 4, cupy=cupy, **environment)
    assert outcome.code == 1
    assert words in outcome.sentence
    assert not archive.with_name("a.clusters.zarr").exists()


def test_all_gpus_are_used_where_there_are_any(with_driver, archive):
    planned = with_driver(archive, "--dry-run", "--json", DRIVER_CARDS="3", CUDA_VISIBLE_DEVICES="2,0")
    assert json.loads(planned.stdout)["cluster"] == {"kind": "local-gpu", "gpus": 2, "streams": 3}


def test_streams_are_counted_and_are_for_gpus_only(with_driver, archive, photonflow):
    planned = with_driver(archive, "--gpus", 1, "--streams", 2, "--dry-run", "--json", DRIVER_CARDS="3")
    assert json.loads(planned.stdout)["cluster"] == {"kind": "local-gpu", "gpus": 1, "streams": 2}
    outcome = photonflow("process", archive, "--cpus", 1, "--streams", 2)
    assert (outcome.code, "--streams is for GPUs" in outcome.stderr) == (2, True)


def test_what_would_be_page_locked_is_told_and_refused_beyond_a_share_of_memory(with_driver, archive):
    planned = with_driver(archive, "--gpus", 1, "--dry-run", DRIVER_CARDS="1")
    assert "\npage-locked " in planned.stdout
    much = with_driver(archive, "--gpus", 1, "--streams", 100_000, DRIVER_CARDS="1")
    assert much.code == 1
    assert "1 GPU with 100000 streams each would page-lock " in much.sentence
    assert much.sentence.endswith("use fewer --streams or --gpus")


def test_without_a_gpu_a_run_says_why_it_uses_cores(photonflow, archive):
    outcome = photonflow("process", archive)
    assert outcome.code == 0
    assert "on CPU cores: there is no NVIDIA driver on this machine" in outcome.stderr

"""GPUs that can't be had are refused in one sentence that says why and what to do, before anything is started."""

import subprocess
import sys

import pytest

ASK = """
import sys
from gpu.availability import NoGpuError, enough_gpus
wanted = None if sys.argv[1] == "all" else int(sys.argv[1])
try:
    print(*(gpu.entry for gpu in enough_gpus(wanted)))
except NoGpuError as error:
    print("no:", error)
assert "cupy" not in sys.modules or sys.modules["cupy"] is None
"""


@pytest.fixture
def ask(driver_environment, installed_cupy):
    def asked(wanted, cupy="cupy-cuda12x", **environment):
        ran = subprocess.run(
            [sys.executable, "-c", ASK, str(wanted)],
            env=installed_cupy(driver_environment, cupy) | environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    return asked


def test_all_gpus_or_so_many_are_had(ask):
    uuids = [f"GPU-{k:08d}-1111-2222-3333-444444444444" for k in (1, 2)]
    assert ask("all", DRIVER_CARDS="2") == " ".join(uuids)
    assert ask(1, DRIVER_CARDS="2") == uuids[0]
    assert ask(2, DRIVER_CARDS="4", CUDA_VISIBLE_DEVICES="3,1,0") == "3 1"


def test_fewer_gpus_than_asked_for_are_told(ask):
    assert ask(4, DRIVER_CARDS="2") == (
        "no: 4 GPUs were asked for, and there are 2: use --gpus 2, or leave the option out to use all there are"
    )
    assert "and there is 1 (CUDA_VISIBLE_DEVICES=1): use --gpus 1" in ask(2, DRIVER_CARDS="2", CUDA_VISIBLE_DEVICES="1")


def test_a_missing_driver_is_told(ask):
    assert ask("all", LD_LIBRARY_PATH="") == (
        "no: there is no NVIDIA driver on this machine (libnvidia-ml.so.1 is not there)"
    )
    assert ask(1, LD_LIBRARY_PATH="").endswith("; leave out --gpus to use CPU cores, or say how many with --cpus")


def test_a_driver_without_cards_is_told(ask):
    assert ask("all", DRIVER_CARDS="0") == "no: the NVIDIA driver finds no GPU on this machine"


def test_an_empty_list_of_visible_gpus_is_told(ask):
    assert ask("all", DRIVER_CARDS="2", CUDA_VISIBLE_DEVICES="") == (
        "no: CUDA_VISIBLE_DEVICES= leaves none of this machine's 2 GPUs"
    )


@pytest.mark.parametrize(("cuda", "extra"), [("12040", "cuda12"), ("13000", "cuda13")])
def test_missing_cupy_is_told_with_what_fits_the_driver(ask, cuda, extra):
    assert ask("all", cupy=None, DRIVER_CARDS="1", DRIVER_CUDA=cuda) == (
        f"no: the GPU is driven through CuPy, which is not installed: pip install 'photonflow[{extra}]'"
    )


def test_a_driver_too_old_for_the_installed_cupy_is_told(ask):
    assert ask("all", cupy="cupy-cuda13x", DRIVER_CARDS="1", DRIVER_CUDA="12080") == (
        "no: the NVIDIA driver is too old for CUDA 13, for which CuPy is installed (driver 570.86.15 is for CUDA 12.8)"
        ": install a newer driver, or pip install 'photonflow[cuda12]'"
    )
    assert "too old for CUDA 12" in ask("all", DRIVER_CARDS="1", DRIVER_CUDA="11080")
    # Within a major version a newer toolkit runs under an older driver.
    assert ask("all", DRIVER_CARDS="1", DRIVER_CUDA="12000").startswith("GPU-")

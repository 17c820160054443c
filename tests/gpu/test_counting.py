"""GPUs are counted by asking the driver, shared out as they were given, and served by the cores next to them."""

import json
import subprocess
import sys

import pytest

from gpu.nearest_cores import NearestCores, nearest_cores
from gpu.nvml import Gpu
from gpu.visible import VisibleGpu, visible_gpus

CARDS = tuple(Gpu(k, f"GPU-{k:08d}-aaaa", "Model", f"0000:{16 * (k + 1):02x}:00.0") for k in range(4))
MIXED = (*CARDS[:3], Gpu(3, "GPU-00000003-aaaa", "Faster", "0000:40:00.0"))
SLICED = (
    Gpu(0, "MIG-11111111-aaaa", "Model", "0000:10:00.0"),
    Gpu(0, "MIG-22222222-aaaa", "Model", "0000:10:00.0"),
    Gpu(1, "GPU-00000001-aaaa", "Model", "0000:20:00.0"),
)

ASK = """
import dataclasses, json, sys
from gpu.nvml import NoDriverError, ask_driver
try:
    print(json.dumps(dataclasses.asdict(ask_driver())))
except NoDriverError as error:
    print(json.dumps(str(error)))
assert not [name for name in sys.modules if name.startswith(("cupy", "numba"))]
assert not any("libcuda" in line for line in open("/proc/self/maps"))
"""


def ask(environment=None):
    ran = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def entries(installed, **environment):
    return [gpu.entry for gpu in visible_gpus(installed, environment)]


def test_a_machine_without_a_driver_says_so():
    assert ask() == "there is no NVIDIA driver on this machine (libnvidia-ml.so.1 is not there)"


def test_the_driver_lists_cards_without_cuda_being_touched(driver_environment):
    driver = ask(driver_environment | {"DRIVER_CARDS": "2", "DRIVER_CUDA": "12040"})
    assert driver["version"] == "570.86.15"
    assert driver["cuda"] == [12, 4]
    assert driver["gpus"] == [
        {
            "index": k,
            "uuid": f"GPU-{k + 1:08d}-1111-2222-3333-444444444444",
            "name": "Model",
            "pci_address": f"0000:{16 * (k + 1):02x}:00.0",
        }
        for k in range(2)
    ]


def test_of_a_card_in_mig_mode_each_instance_is_a_gpu(driver_environment):
    driver = ask(driver_environment | {"DRIVER_CARDS": "2", "DRIVER_INSTANCES": "3"})
    assert [gpu["uuid"][:12] for gpu in driver["gpus"]] == [f"MIG-{k:08d}" for k in (101, 201, 301, 102, 202, 302)]
    assert [gpu["index"] for gpu in driver["gpus"]] == [0, 0, 0, 1, 1, 1]


def test_a_driver_that_is_not_loaded_says_so(driver_environment):
    assert ask(driver_environment | {"DRIVER_ANSWERS": "9"}) == (
        "the NVIDIA driver is installed, but its kernel module is not loaded (Driver Not Loaded)"
    )


def test_without_a_list_all_gpus_are_visible_by_their_uuids():
    assert entries(CARDS) == [card.uuid for card in CARDS]
    assert entries(SLICED) == [gpu.uuid for gpu in SLICED]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("", []),
        ("2,0", ["2", "0"]),
        (" 3 , 1", ["3", "1"]),
        ("0,1,-1,2", ["0", "1"]),
        ("0,7,1", ["0"]),
        ("NoDevFiles", []),
        ("GPU-00000002-aaaa,GPU-00000001", ["GPU-00000002-aaaa", "GPU-00000001"]),
        ("GPU-0000000", []),
        ("GPU-99999999", []),
        ("MIG-GPU-00000001-aaaa/2/0", ["MIG-GPU-00000001-aaaa/2/0"]),
    ],
    ids=str,
)
def test_an_inherited_list_is_kept_as_cuda_reads_it(listed, expected):
    assert entries(CARDS, CUDA_VISIBLE_DEVICES=listed) == expected


def test_mig_instances_in_an_inherited_list_are_kept():
    gpus = visible_gpus(SLICED, {"CUDA_VISIBLE_DEVICES": "MIG-22222222-aaaa,GPU-00000001"})
    assert gpus == (VisibleGpu("MIG-22222222-aaaa", SLICED[1]), VisibleGpu("GPU-00000001", SLICED[2]))
    (old,) = visible_gpus(CARDS, {"CUDA_VISIBLE_DEVICES": "MIG-GPU-00000002-aaaa/1/0"})
    assert old.card == CARDS[2]


def test_a_number_names_a_card_only_where_cuda_counts_as_the_driver_does():
    assert [gpu.card for gpu in visible_gpus(CARDS, {"CUDA_VISIBLE_DEVICES": "3"})] == [CARDS[3]]
    assert [gpu.card for gpu in visible_gpus(MIXED, {"CUDA_VISIBLE_DEVICES": "3"})] == [None]
    by_bus = {"CUDA_VISIBLE_DEVICES": "3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert [gpu.card for gpu in visible_gpus(MIXED, by_bus)] == [MIXED[3]]


@pytest.fixture
def machine(tmp_path):
    """Two nodes of 8 cores and their siblings: three cards at the first, one at the second."""
    for card, node in zip(CARDS, (0, 0, 0, 1), strict=True):
        folder = tmp_path / "sys/bus/pci/devices" / card.pci_address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
        (folder / "local_cpulist").write_text("0-7,16-23\n" if node == 0 else "8-15,24-31\n")
    return tmp_path


FIRST = frozenset([*range(8), *range(16, 24)])
SECOND = frozenset([*range(8, 16), *range(24, 32)])


def test_a_gpu_is_served_by_the_cores_of_its_node(machine):
    gpus = visible_gpus(CARDS, {})
    near = nearest_cores(gpus, FIRST | SECOND, machine)
    assert near == [NearestCores(0, FIRST, 3)] * 3 + [NearestCores(1, SECOND, 1)]
    assert [cores.decode_threads for cores in near] == [5, 5, 5, 16]
    # Only what is used counts.
    assert nearest_cores(gpus[:1], FIRST | SECOND, machine)[0].decode_threads == 16


def test_only_cores_that_may_be_used_count(machine):
    (near,) = nearest_cores(visible_gpus(CARDS[:1], {}), frozenset({2, 3, 8}), machine)
    assert near == NearestCores(0, frozenset({2, 3}), 1)


@pytest.mark.parametrize("case", ["another node's cores", "one node", "nothing known"])
def test_where_the_node_is_of_no_use_all_cores_serve(machine, case):
    gpus, allowed = visible_gpus(CARDS[:1], {}), FIRST
    if case == "another node's cores":
        allowed = SECOND
    elif case == "one node":
        (machine / "sys/bus/pci/devices" / CARDS[0].pci_address / "numa_node").write_text("-1\n")
    else:
        gpus = (VisibleGpu("0", None),)
    assert nearest_cores(gpus, allowed, machine) == [NearestCores(None, allowed, 1)]


def test_more_gpus_than_cores_still_decode():
    gpus = tuple(VisibleGpu(str(k), None) for k in range(4))
    assert [near.decode_threads for near in nearest_cores(gpus, frozenset({0, 1}))] == [1] * 4

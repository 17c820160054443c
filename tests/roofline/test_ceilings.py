import numpy as np
import pytest

from roofline import Ceiling, attainable, binding, bound, floors, intensity, ridge_point
from roofline.machines import GPUS, LINKS
from roofline.matmul import Multiply

A100 = GPUS["a100-80"]


def test_the_ridge_point_of_an_a100_is_at_153_operations_a_byte():
    assert ridge_point(A100.bf16, A100.bandwidth) == pytest.approx(153.0, abs=0.05)


@pytest.mark.parametrize(
    ("operations", "kind", "reached"),
    [(1, "memory", 10), (9, "memory", 90), (10, "compute", 100), (11, "compute", 100)],
)
def test_below_the_ridge_memory_binds_at_or_above_it_arithmetic(operations, kind, reached):
    peak, bandwidth = 100.0, 10.0
    assert bound(operations, 1, peak, bandwidth) == kind
    assert attainable(peak, bandwidth, intensity(operations, 1)) == reached


def test_a_tie_is_compute_bound_not_memory_bound():
    # 49 · (1 / 49) is less than 1 in floating point.
    assert 49 * (1 / 49) < 1
    assert bound(49, 49, 1 / 49, 1 / 49) == "compute"
    ceilings = (Ceiling("memory", "memory", 5.0), Ceiling("flops", "compute", 10.0))
    assert binding({"memory": 5, "flops": 10}, ceilings).ceiling.name == "flops"


def test_the_naive_multiply_reaches_a_third_of_a_percent_of_an_a100():
    sizes = Multiply(4096, 4096, 4096)
    naive = intensity(sizes.flops, sizes.tiled_traffic(1).nbytes(2))
    assert attainable(A100.bf16, A100.bandwidth, naive) == pytest.approx(1.019e12, rel=5e-4)
    assert attainable(A100.bf16, A100.bandwidth, naive) / A100.bf16 == pytest.approx(0.00327, rel=1e-3)
    math_floor, traffic_floor = (
        floors({"bf16": sizes.flops}, A100.ceilings)[0].seconds,
        floors({"memory": sizes.tiled_traffic(1).nbytes(2)}, A100.ceilings)[0].seconds,
    )
    assert math_floor == pytest.approx(0.4405e-3, rel=2e-4)
    assert traffic_floor == pytest.approx(134.83e-3, rel=1e-4)
    assert traffic_floor / math_floor == pytest.approx(306.07, rel=1e-4)
    assert sizes.least_traffic.nbytes(2) == 100_663_296
    assert floors({"memory": 100_663_296}, A100.ceilings)[0].seconds == pytest.approx(0.0494e-3, rel=1e-3)


def test_a_run_takes_at_least_the_highest_of_its_floors():
    ceilings = (
        Ceiling("PCIe", "memory", 25e9),
        Ceiling("memory", "memory", 1e12),
        Ceiling("float32", "compute", 80e12),
    )
    work = {"PCIe": 320_000, "memory": 2_560_000, "float32": 8_000_000}
    seconds = {floor.ceiling.name: floor.seconds for floor in floors(work, ceilings)}
    assert seconds == pytest.approx({"PCIe": 12.8e-6, "memory": 2.56e-6, "float32": 0.1e-6})
    assert binding(work, ceilings).ceiling.name == "PCIe"
    assert binding(work, ceilings).seconds == max(seconds.values())


def test_work_for_a_ceiling_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="work for NVLink, and the machine has bf16, float32, memory"):
        floors({"NVLink": 1}, A100.ceilings)
    with pytest.raises(ValueError, match="nothing binds"):
        binding({}, A100.ceilings)
    with pytest.raises(ValueError, match="positive"):
        Ceiling("memory", "memory", 0)
    with pytest.raises(ValueError, match="not a number"):
        intensity(1, 0)


@pytest.mark.parametrize(
    ("link", "gigabytes"), [("pcie3", 15.75), ("pcie4", 31.51), ("pcie5", 63.02), ("pcie6", 118.0), ("ddr4-3200", 25.6)]
)
def test_a_link_has_the_bandwidth_that_its_standard_gives(link, gigabytes):
    assert LINKS[link].bandwidth / 1e9 == pytest.approx(gigabytes, rel=5e-4)


def test_the_published_transfer_used_77_percent_of_its_link():
    # 320 kB of a frame in 13.2 µs, over PCIe 4.0 ×16.
    rate = 320_000 / 13.2e-6
    assert rate / 1e9 == pytest.approx(24.2, abs=0.05)
    assert rate / LINKS["pcie4"].bandwidth == pytest.approx(0.77, abs=0.005)


def test_every_data_sheet_names_its_source():
    assert set(GPUS) == {"a100-40", "a100-80", "h100", "h200", "b200", "rtx4090"}
    for sheet in (*GPUS.values(), *LINKS.values()):
        assert sheet.source
        assert np.isfinite(sheet.bandwidth)

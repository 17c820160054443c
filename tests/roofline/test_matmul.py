import numpy as np
import pytest

from roofline.machines import GPUS
from roofline.matmul import (
    Multiply,
    Traffic,
    largest_tile,
    smallest_batch_at_ridge,
    smallest_tile_at_ridge,
    tile_at_ridge_for_large_n,
    tile_at_ridge_with_stores,
    tile_nbytes,
    tile_steps,
    tiled_multiply,
    weight_read_seconds,
)

A100 = GPUS["a100-80"]
RIDGE = A100.bf16 / A100.bandwidth
LARGE = Multiply(4096, 4096, 4096)


def matrices(m, k, n):
    rng = np.random.default_rng(7)
    return rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))


@pytest.mark.parametrize(("n", "best"), [(2, 0.333), (16, 2.667), (256, 42.667), (4096, 682.667)])
def test_the_best_intensity_of_square_matrices_of_4_byte_elements(n, best):
    assert Multiply(n, n, n).intensity(4) == pytest.approx(best, abs=5e-4)


@pytest.mark.parametrize(
    ("m", "k", "n", "tile"), [(64, 64, 64, 8), (37, 23, 41, 8), (1, 33, 17, 8), (9, 11, 13, 64), (5, 3, 7, 1)]
)
def test_the_counting_multiply_agrees_with_the_closed_form(m, k, n, tile):
    a, b = matrices(m, k, n)
    product, traffic = tiled_multiply(a, b, tile)
    assert np.array_equal(product, a @ b)
    assert traffic == Multiply(m, k, n).tiled_traffic(tile)


@pytest.mark.parametrize(("m", "k", "n", "tile"), [(8, 8, 8, 2), (7, 5, 3, 1)])
def test_a_tiled_product_is_the_product(m, k, n, tile):
    a, b = matrices(m, k, n)
    assert np.array_equal(tiled_multiply(a, b, tile)[0], a @ b)


def test_loads_of_square_matrices_fall_as_one_over_the_tile():
    n = 64
    sizes = Multiply(n, n, n)
    for tile in (1, 2, 8, 64):
        assert sizes.tiled_traffic(tile).loads == 2 * n**3 // tile
    assert sizes.tiled_traffic(1) == Traffic(2 * n**3, n * n)
    assert sizes.tiled_traffic(n) == sizes.least_traffic


def test_the_4_by_4_multiply_in_2_by_2_tiles_takes_8_steps_of_8_loads():
    sizes = Multiply(4, 4, 4)
    steps = list(tile_steps(sizes, 2))
    assert [step.traffic.loads for step in steps] == [8] * 8
    assert sizes.tiled_traffic(2) == Traffic(64, 16)
    assert sizes.flops == 128
    assert sizes.tiled_traffic(1).loads == 128
    assert sizes.flops / sizes.tiled_traffic(1).elements == pytest.approx(0.89, abs=5e-3)
    assert sizes.flops / sizes.tiled_traffic(2).elements == pytest.approx(1.6)


def test_the_steps_add_up_to_the_closed_form():
    sizes = Multiply(5, 3, 7)
    steps = list(tile_steps(sizes, 2))
    assert sum((step.traffic for step in steps), Traffic(0, 0)) == sizes.tiled_traffic(2)
    assert sum(step.flops for step in steps) == sizes.flops


def test_the_worked_example():
    a = np.array([[1, 2, 0, 1], [3, 1, 2, 0], [0, 1, 1, 2], [2, 0, 1, 1]])
    b = np.array([[1, 2, 2, 1], [0, 1, 1, 0], [2, 1, 0, 1], [1, 2, 1, 0]])
    product, traffic = tiled_multiply(a, b, 2)
    assert product.tolist() == [[2, 6, 5, 1], [7, 9, 7, 5], [4, 6, 3, 1], [5, 7, 5, 3]]
    assert traffic == Traffic(64, 16)
    first, second = (
        a[step.rows, step.inner] @ b[step.inner, step.columns] for step in list(tile_steps(Multiply(4, 4, 4), 2))[:2]
    )
    assert first.tolist() == [[1, 4], [3, 7]]
    assert second.tolist() == [[1, 2], [4, 2]]
    assert np.array_equal(first + second, product[:2, :2])


@pytest.mark.parametrize(
    ("tile", "loads", "intensity"),
    [
        (4, 1_048_576, 1.97),
        (8, 524_288, 3.88),
        (16, 262_144, 7.53),
        (32, 131_072, 14.22),
        (64, 65_536, 25.60),
        (128, 32_768, 42.67),
    ],
)
def test_tiles_of_128_by_128_matrices(tile, loads, intensity):
    sizes = Multiply(128, 128, 128)
    assert sizes.tiled_traffic(tile) == Traffic(loads, 16_384)
    assert sizes.flops == 4_194_304
    assert sizes.intensity(2, tile) == pytest.approx(intensity, abs=5e-3)


@pytest.mark.parametrize(
    ("tile", "loads", "over_least", "intensity", "fast_bytes"),
    [
        (1, 137_438_953_472, 2731, 0.5, 6),
        (4, 34_359_738_368, 683, 2.0, 96),
        (16, 8_589_934_592, 171, 7.98, 1_536),
        (64, 2_147_483_648, 43, 31.75, 24_576),
        (256, 536_870_912, 11, 124.12, 393_216),
        (1024, 134_217_728, 3, 455.11, 6_291_456),
        (4096, 33_554_432, 1, 1365.33, 100_663_296),
    ],
)
def test_tiles_of_4096_by_4096_matrices(tile, loads, over_least, intensity, fast_bytes):
    traffic = LARGE.tiled_traffic(tile)
    assert traffic.loads == loads
    assert round(traffic.elements / LARGE.least_traffic.elements) == over_least
    assert LARGE.intensity(2, tile) == pytest.approx(intensity, abs=6e-3)
    assert tile_nbytes(tile, 2) == fast_bytes


@pytest.mark.parametrize(
    ("kibibytes", "itemsize", "tile", "intensity"),
    [(16, 2, 52, 25.8), (64, 2, 104, 50.6), (256, 2, 209, 99.9), (1024, 2, 418, 195.0), (48, 4, 64, 15.9)],
)
def test_the_largest_tile_that_fast_memory_holds(kibibytes, itemsize, tile, intensity):
    assert largest_tile(kibibytes * 1024, itemsize) == tile
    assert tile_nbytes(tile, itemsize) <= kibibytes * 1024 < tile_nbytes(tile + 1, itemsize)
    assert LARGE.intensity(itemsize, tile) == pytest.approx(intensity, abs=0.05)


def test_the_smallest_tile_at_the_ridge():
    assert LARGE.intensity(2, 1) == pytest.approx(0.5, abs=1e-4)
    assert tile_at_ridge_for_large_n(2, RIDGE) == pytest.approx(306, abs=0.1)
    assert np.ceil(tile_at_ridge_with_stores(4096, 2, RIDGE)) == 318
    assert smallest_tile_at_ridge(LARGE, 2, RIDGE) == 342
    assert LARGE.intensity(2, 342) == pytest.approx(163.8, abs=0.05)
    assert -(-4096 // 342) == 12
    assert LARGE.intensity(2, 341) == pytest.approx(151.7, abs=0.05)
    assert -(-4096 // 341) == 13
    assert tile_nbytes(342, 2) == 701_784


def test_a_ridge_out_of_reach_is_said_to_be():
    small = Multiply(16, 16, 16)
    assert smallest_tile_at_ridge(small, 2, RIDGE) is None
    assert smallest_batch_at_ridge(64, 64, 2, RIDGE) is None
    assert tile_at_ridge_with_stores(16, 2, RIDGE) == np.inf


@pytest.mark.parametrize(
    ("m", "intensity", "teraflops", "percent"),
    [
        (1, 1.00, 2.04, 0.7),
        (8, 7.97, 16.25, 5.2),
        (32, 31.51, 64.24, 20.6),
        (128, 120.47, 245.64, 78.7),
        (165, 152.70, 311.35, 99.8),
        (166, 153.55, 312.00, 100),
        (1024, 682.67, 312.00, 100),
    ],
)
def test_a_batch_against_a_square_matrix(m, intensity, teraflops, percent):
    found = Multiply(m, 4096, 4096).intensity(2)
    reached = min(A100.bf16, A100.bandwidth * found)
    assert found == pytest.approx(intensity, abs=6e-3)
    assert reached / 1e12 == pytest.approx(teraflops, abs=6e-3)
    assert 100 * reached / A100.bf16 == pytest.approx(percent, abs=0.05)


def test_the_smallest_batch_at_the_ridge_is_166():
    assert smallest_batch_at_ridge(4096, 4096, 2, RIDGE) == 166


def test_reading_all_weights_bounds_the_tokens_a_second():
    seconds = weight_read_seconds(7e9, 2, A100.bandwidth)
    assert seconds == pytest.approx(6.866e-3, abs=5e-7)
    assert 1 / seconds == pytest.approx(145.6, abs=0.05)


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="every side"):
        Multiply(0, 1, 1)
    with pytest.raises(ValueError, match="its side"):
        LARGE.tiled_traffic(0)
    with pytest.raises(ValueError, match="can't be multiplied"):
        tiled_multiply(np.ones((2, 3)), np.ones((2, 3)), 1)

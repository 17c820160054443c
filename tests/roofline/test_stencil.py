import pytest

from roofline.stencil import Tiling, finder_traffic, inner_tile_loads


@pytest.mark.parametrize("radius", [(0, 0), (1, 1), (4, 4), (1, 3)])
@pytest.mark.parametrize("tile", [(1, 1), (8, 8), (16, 5), (64, 64)])
@pytest.mark.parametrize("n_frames", [1, 3])
def test_counted_and_closed_loads_agree(tile, radius, n_frames):
    tiling = Tiling((37, 23), tile, radius)
    assert tiling.loads(n_frames) == tiling.counted_loads(n_frames)


def test_a_tile_away_from_the_edges_loads_its_halo_too():
    assert inner_tile_loads(16, 1) == 18**2
    # The one inner tile of 3×3 of them, with the sides' and the corners' that the image cuts off.
    assert Tiling((48, 48), (16, 16), (1, 1)).loads() == 18**2 + 4 * 18 * 17 + 4 * 17**2


def test_one_tile_over_the_whole_image_loads_it_once():
    assert Tiling((400, 400), (400, 400), (4, 4)).loads() == 160_000


def test_the_halo_shrinks_by_a_radius_with_each_frame_of_a_pass():
    tiling = Tiling((64, 64), (16, 16), (1, 1))
    assert tiling.pass_loads(1) == tiling.loads()
    assert tiling.pass_loads(3) == tiling.loads(3) + tiling.loads(2) + tiling.loads(1)


def test_the_traffic_of_a_400_by_400_frame():
    traffic = finder_traffic((400, 400))
    assert traffic.frame == 320_000
    assert traffic.state == 2_560_000
    assert traffic.offsets == 320_000
    assert traffic.state / 160_000 == 16
    assert traffic.nbytes == 3_200_000


def test_frames_of_a_pass_share_the_pedestal():
    one, eight = finder_traffic((400, 400)), finder_traffic((400, 400), frames_a_pass=8)
    assert eight.state == one.state / 8
    assert eight.offsets == one.offsets / 8
    assert eight.frame == one.frame


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        Tiling((0, 4), (1, 1), (1, 1))
    with pytest.raises(ValueError, match="at least one"):
        finder_traffic((4, 4), frames_a_pass=0)

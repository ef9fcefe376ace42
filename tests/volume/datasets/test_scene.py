import numpy as np
import pytest

from dtsflow.volume.datasets.synthetic import Look, Plates, make_plates, paint


@pytest.fixture(scope="module")
def plates() -> Plates:
    return make_plates(np.random.default_rng(0))


@pytest.mark.parametrize("size", [(75, 75), (301, 97), (1500, 80)])
def test_any_size_is_painted(plates: Plates, size: tuple[int, int]) -> None:
    image = paint(*size, Look(0.3, 0.5), plates, np.random.default_rng(1))
    assert image.shape == (size[1], size[0], 3)
    assert image.dtype == np.uint8
    assert 20 < image.mean() < 235
    assert image.std() > 8


def test_the_same_draws_give_the_same_image(plates: Plates) -> None:
    images = [paint(90, 80, Look(0.3, 0.5), plates, np.random.default_rng(7)) for _ in range(2)]
    assert (images[0] == images[1]).all()

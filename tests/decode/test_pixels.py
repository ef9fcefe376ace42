import numpy as np
import pytest

from dtsflow.decode.pillow import PixelDecoder
from dtsflow.errors import DecodeError
from dtsflow.spec import ImageSpec


def test_pixels_are_viewed_and_not_copied() -> None:
    stored = np.arange(2 * 3 * 3, dtype=np.uint8)
    decoder = PixelDecoder(ImageSpec(2, 3, 3))
    image = decoder.decode(stored.data)
    assert image.shape == (2, 3, 3)
    assert image[1, 0].tolist() == [9, 10, 11]
    assert np.shares_memory(image, stored)
    assert decoder.probe(stored.data) == (2, 3)


@pytest.mark.parametrize("size", [0, 17, 19])
def test_another_number_of_bytes_is_bad(size: int) -> None:
    decoder = PixelDecoder(ImageSpec(2, 3, 3))
    with pytest.raises(DecodeError, match=f"{size} bytes, and 2 x 3 x 3 pixels take 18"):
        decoder.decode(bytes(size))
    with pytest.raises(DecodeError, match="pixels take 18"):
        decoder.probe(bytes(size))

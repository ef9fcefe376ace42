"""Samples that are stored as pixels, as in MNIST and CIFAR volumes."""

import numpy as np

from dtsflow.decode.decoder import Encoded, Image
from dtsflow.decode.policy import Facts
from dtsflow.errors import DecodeError
from dtsflow.spec import ImageSpec


class PixelDecoder:
    """Views stored pixels as the images they are; every image has the size of `image`.

    Satisfies Decoder.
    """

    def __init__(self, image: ImageSpec) -> None:
        assert image.height is not None
        assert image.width is not None
        self._facts = Facts(image.height, image.width)
        self._shape = (image.height, image.width, image.channels)

    def probe(self, data: Encoded) -> Facts:
        """Give the one size there is.

        Raises:
            DecodeError: `data` has not exactly one image's bytes.
        """
        self._check(data)
        return self._facts

    def scales(self, data: Encoded) -> bool:  # noqa: ARG002  # pixels never do
        """No: there is nothing to decode."""
        return False

    def decode(self, data: Encoded, scale: int = 1) -> Image:
        """View `data` as an image; nothing is copied, so it lives as long as `data`.

        Raises:
            DecodeError: `data` has not exactly one image's bytes.
        """
        assert scale == 1
        self._check(data)
        return np.frombuffer(data, np.uint8).reshape(self._shape)

    def _check(self, data: Encoded) -> None:
        height, width, channels = self._shape
        stored = memoryview(data).nbytes
        if stored != height * width * channels:
            raise DecodeError(
                f"it has {stored} bytes, and {height} x {width} x {channels} pixels take "
                f"{height * width * channels}"
            )

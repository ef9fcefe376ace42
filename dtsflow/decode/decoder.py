"""What a decoder is: the two calls that turn one stored sample into an image."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.decode.policy import Facts

Encoded = bytes | bytearray | memoryview
"""One stored sample: contiguous bytes, read and never kept."""

Image = npt.NDArray[np.uint8]
"""Height x width x channels, uint8, contiguous; possibly read-only."""


class Decoder(Protocol):
    """Decodes samples for one worker. A DecodeError carries the reason and no more.

    Whoever knows the volume, block, index, label and id adds them to the message.
    """

    def probe(self, data: Encoded) -> Facts:
        """Read the size from the header; the same that `decode` will give.

        Raises:
            DecodeError: The sample is bad, as far as can be told without decoding it.
        """

    def scales(self, data: Encoded) -> bool:
        """Whether `decode` can give this sample at a part of its size: a JPEG."""

    def decode(self, data: Encoded, scale: int = 1) -> Image:
        """Decode the whole image, at 1/`scale` (1, 2, 4, 8), sides rounded up.

        Raises:
            DecodeError: The sample is bad.
        """
